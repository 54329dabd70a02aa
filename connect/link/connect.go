package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// patience bounds making a connection, up to the CONNACK, and the subscription of a
// bridge's session while the remote broker is away.
const patience = 30 * time.Second

// forever is a session that does not end by itself.
const forever = 1<<32 - 1

// connectThere makes the connection to the remote broker. clean begins a new
// session there.
func (l *Link) connectThere(ctx context.Context, clean bool) (*side, *packet.Connack, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := l.request(clean)
	if err != nil {
		return nil, nil, err
	}
	conn, err := l.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	there := newSide("the remote broker", conn, l.config.level(), l.service.MaxPacket)
	answer, err := there.hello(ctx, request, l.config.Bridged)
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return there, answer, nil
}

// dial opens the connection to the remote broker, with TLS if it has that.
func (l *Link) dial(ctx context.Context) (net.Conn, error) {
	address, err := l.config.remote()
	if err != nil {
		return nil, err
	}
	secure, host := l.config.secure()
	if !secure {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if l.config.CA != "" {
		roots, err := os.ReadFile(l.config.CA)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(roots) {
			return nil, fmt.Errorf("ca: no certificate in %s", l.config.CA)
		}
	}
	if l.config.Cert != "" { // read anew every time: certificates are renewed
		own, err := tls.LoadX509KeyPair(l.config.Cert, l.config.Key)
		if err != nil {
			return nil, fmt.Errorf("cert and key: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
}

// request is the CONNECT for the remote broker.
func (l *Link) request(clean bool) (*packet.Connect, error) {
	password, err := secret(l.config.Password)
	if err != nil {
		return nil, fmt.Errorf("password_file: %w", err)
	}
	c := &packet.Connect{
		Version: l.config.level(), CleanStart: clean, KeepAlive: uint16(l.keepAlive() / time.Second), ClientID: []byte(l.clientThere()),
		HasUsername: l.config.Username != "", Username: []byte(l.config.Username),
		HasPassword: l.config.Password != "", Password: []byte(password),
	}
	c.Properties.SetNumber(packet.SessionExpiry, forever)
	c.Properties.SetNumber(packet.ReceiveMaximum, uint32(min(l.inflight(), l.service.ReceiveMaximum)))
	c.Properties.SetNumber(packet.MaximumPacketSize, uint32(l.service.MaxPacket))
	c.Properties.AddUser([]byte(viaProperty), []byte(l.service.Mark))
	if l.config.Status != "" {
		will := l.tells("offline")
		c.HasWill, c.Will = true, packet.Will{QoS: will.QoS, Retain: true, Topic: will.Topic, Payload: will.Payload}
	}
	return c, nil
}

func (l *Link) keepAlive() time.Duration {
	if l.config.KeepAlive > 0 {
		return time.Duration(l.config.KeepAlive) * time.Second
	}
	return defaultKeepAlive * time.Second
}

// tells is the message with the link's state for the remote broker.
func (l *Link) tells(state string) *packet.Publish {
	return &packet.Publish{Topic: []byte(l.config.Status), Payload: []byte(state), Retain: true}
}

// connectHere makes the connection to the bridge's own broker, which sends so
// many messages at a time.
func (l *Link) connectHere(ctx context.Context, who *protocol.Principal, window int) (*side, *packet.Connack, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := l.service.Broker.Dial(grant.Of(who))
	if err != nil {
		return nil, nil, err
	}
	request := &packet.Connect{Version: packet.V5, ClientID: []byte(l.id())}
	request.Properties.SetNumber(packet.SessionExpiry, forever)
	request.Properties.SetNumber(packet.ReceiveMaximum, uint32(max(window, 1)))
	local := newSide("the bridge", conn, packet.V5, packet.MaxRemaining)
	answer, err := local.hello(ctx, request, false)
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	local.takes = int(answer.Properties.Number(packet.MaximumPacketSize, uint32(local.takes)))
	return local, answer, nil
}

// hello sends a CONNECT and takes the CONNACK.
func (s *side) hello(ctx context.Context, request *packet.Connect, bridged bool) (*packet.Connack, error) {
	defer context.AfterFunc(ctx, func() { _ = s.conn.SetDeadline(time.Unix(1, 0)) })()
	b := request.Append(nil)
	if bridged {
		b[bridgeBitAt(b)] |= packet.BridgeBit
	}
	if err := s.say(b); err != nil {
		return nil, err
	}
	h, body, err := s.read()
	if err != nil {
		return nil, err
	}
	if h.Type() != packet.CONNACK {
		return nil, s.wrong(errors.New(h.Type().String() + " before CONNACK"))
	}
	if s.version == packet.V5 && len(body) == 2 { // as a broker answers that knows no MQTT 5
		s.version = packet.V311
		defer func() { s.version = packet.V5 }()
	}
	answer := new(packet.Connack)
	if err := answer.Decode(s.version, body); err != nil {
		return nil, s.wrong(err)
	}
	switch {
	case answer.Reason != packet.Success:
		return nil, s.refusal(answer)
	case request.Version != s.version:
		return nil, s.wrong(errors.New("an answer of MQTT 3.1.1 to a CONNECT of MQTT 5"))
	}
	if takes := answer.Properties.Number(packet.MaximumPacketSize, 0); takes > 0 {
		s.takes = int(takes)
	}
	if err := s.conn.SetDeadline(time.Time{}); err != nil {
		return nil, s.lost(err)
	}
	return answer, ctx.Err()
}

// bridgeBitAt is the index of the protocol level in an encoded CONNECT.
func bridgeBitAt(b []byte) int {
	at := 1
	for b[at] >= 0x80 { // of the remaining length
		at++
	}
	return at + 1 + len("\x00\x04MQTT")
}

// refusal is a CONNACK that refuses, as an error.
func (s *side) refusal(answer *packet.Connack) error {
	reason := answer.Reason.String()
	if s.version != packet.V5 {
		reason = [...]string{"", "unacceptable protocol version (there is version: 3.1.1)", "identifier rejected", "server unavailable", "bad user name or password", "not authorized"}[answer.Reason]
	}
	if text := answer.Properties.Bytes(packet.ReasonString); len(text) > 0 {
		reason += fmt.Sprintf(" (%.200q)", text)
	}
	return fmt.Errorf("%s refuses the connection: %s", s.name, reason)
}

// markOf is the mark of a remote broker that is a bridge, too, "" of others.
func markOf(p *packet.Properties) string {
	for _, u := range p.User {
		if string(u.Key) == viaProperty && len(u.Value) <= mostMark {
			return string(u.Value)
		}
	}
	return ""
}

// mostMark is the longest mark of a bridge, in bytes.
const mostMark = 64
