package broker

import (
	"bytes"
	"context"
	"errors"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
)

// An Identity is the outcome of an enhanced authentication.
type Identity struct{ Principal *protocol.Principal }

// An authentication is an exchange of AUTH packets (MQTT 5 §4.12).
type authentication struct {
	method   string
	request  *request // of the CONNECT; kept for re-authentication
	exchange Exchange // nil between exchanges
	again    bool     // the client is connected and authenticates again
}

var errMethod = &packet.Error{Reason: packet.BadAuthenticationMethod, Text: "authentication method is not supported"}

// auth handles AUTH.
func (t *turn) auth(c *conn, body []byte) error {
	var p packet.Auth
	if err := p.Decode(c.version, body); err != nil {
		return err
	}
	if c.ex == nil { // [MQTT-4.12.0-6] [MQTT-4.12.0-7]
		return &packet.Error{Reason: packet.ProtocolError, Text: "AUTH without an authentication method"}
	}
	if string(p.Properties.Bytes(packet.AuthMethod)) != c.ex.method { // [MQTT-4.12.0-5] [MQTT-4.12.1-1]
		return &packet.Error{Reason: packet.ProtocolError, Text: "authentication method changed"}
	}
	switch {
	case p.Reason == packet.ContinueAuthentication && c.ex.exchange != nil: // [MQTT-4.12.0-3]
	case p.Reason == packet.Reauthenticate && c.ex.exchange == nil && c.phase.Load() == phaseOpen:
		c.ex.again = true
	default:
		return &packet.Error{Reason: packet.ProtocolError, Text: "unexpected reason code of AUTH"}
	}
	data := bytes.Clone(p.Properties.Bytes(packet.AuthData))
	c.job = func() {
		t := t.b.getTurn()
		defer t.b.putTurn(t)
		t.b.exchange(t, c, data)
	}
	return nil
}

// exchange takes one step of an authentication.
func (b *Broker) exchange(t *turn, c *conn, data []byte) {
	a := c.ex
	answer, who, err := a.step(b, data)
	t.begin()
	switch {
	case err != nil:
		b.log.Info("authentication failed", "client", a.request.shown.ClientID, "method", a.method, "error", err)
		why := refusal(err)
		if p, ok := errors.AsType[*packet.Error](err); ok {
			why = p
		}
		if a.again { // [MQTT-4.12.1-2]
			if why.Reason == packet.BadUserNameOrPassword { // not a reason of DISCONNECT
				why = &packet.Error{Reason: packet.NotAuthorized, Text: why.Text}
			}
			t.stop(c, why.Reason, why.Text, "authentication failed")
			return
		}
		t.refuse(c, why) // [MQTT-4.12.0-4]
	case who == nil: // [MQTT-4.12.0-2]
		t.sayAuth(c, packet.ContinueAuthentication, answer)
	case a.again:
		a.exchange = nil
		if !who.Principal.Same(c.client.Principal()) {
			t.stop(c, packet.NotAuthorized, "not the principal that connected", "authenticated as another principal")
			return
		}
		t.renew(c, who.Principal)
		t.sayAuth(c, packet.Success, answer)
	default:
		a.exchange = nil
		if b.options.Directory != nil {
			b.enterCluster(t, c, a.request, who.Principal, answer)
			return
		}
		t.enter(c, a.request, who.Principal, answer)
	}
}

// step takes a step when there is a place for it.
func (a *authentication) step(b *Broker, data []byte) (answer []byte, who *Identity, err error) {
	release, ok := b.authenticates()
	if !ok {
		return nil, nil, errShuttingDown
	}
	defer release()
	ctx, cancel := context.WithTimeout(b.ctx, b.options.Limits.ConnectTimeout)
	defer cancel()
	return a.next(ctx, b, data)
}

func (a *authentication) next(ctx context.Context, b *Broker, data []byte) (answer []byte, who *Identity, err error) {
	if a.exchange == nil {
		method := b.options.Enhanced[a.method]
		if method == nil { // [MQTT-4.12.0-1]
			return nil, nil, errMethod
		}
		if a.exchange, err = method.Start(ctx, a.request.shown); err != nil {
			return nil, nil, err
		}
	}
	answer, who, err = a.exchange.Next(ctx, data)
	if err == nil && who != nil && who.Principal == nil {
		err = errNoPrincipal
	}
	return answer, who, err
}

// sayAuth sends AUTH, without which a client that can't take it gets no
// further [MQTT-3.1.2-24].
func (t *turn) sayAuth(c *conn, reason packet.Reason, data []byte) {
	p := packet.Auth{Reason: reason}
	p.Properties.SetBytes(packet.AuthMethod, []byte(c.ex.method))
	if data != nil {
		p.Properties.SetBytes(packet.AuthData, data)
	}
	const text = "AUTH exceeds the maximum packet size"
	switch b := p.Append(nil); {
	case len(b) <= c.maxPacket:
		c.add(t, b)
	case c.ex.again:
		t.stop(c, packet.PacketTooLarge, text, text)
	default:
		t.refuse(c, &packet.Error{Reason: packet.PacketTooLarge, Text: text})
	}
}
