package broker

import (
	"context"
	"slices"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/aibridge/aibridge/protocol"
)

// A hook is where the engine asks and tells the broker.
type hook struct {
	mqtt.HookBase
	broker *Broker
}

func (h *hook) ID() string { return "broker" }

func (h *hook) Provides(event byte) bool {
	return slices.Contains([]byte{
		mqtt.OnConnect, mqtt.OnConnectAuthenticate, mqtt.OnSessionEstablished, mqtt.OnClientExpired,
		mqtt.OnACLCheck, mqtt.OnPublish, mqtt.OnWill, mqtt.OnWillSent,
		mqtt.OnSubscribe, mqtt.OnSubscribed, mqtt.OnUnsubscribed, mqtt.OnSelectSubscribers,
		mqtt.OnPacketEncode,
	}, event)
}

// OnConnect authenticates and claims the client id; it answers refusals
// itself, since the engine knows but one reason for them.
func (h *hook) OnConnect(cl *mqtt.Client, pk packets.Packet) error {
	code := h.admit(cl, pk)
	if code == packets.CodeSuccess {
		return nil
	}
	answer := code
	if cl.Properties.ProtocolVersion < 5 {
		answer = packets.Code{Code: v3Refusal(code)}
	}
	_ = h.broker.server.SendConnack(cl, answer, false, nil)
	return code
}

func (h *hook) admit(cl *mqtt.Client, pk packets.Packet) packets.Code {
	b := h.broker
	c, ok := cl.Net.Conn.(*conn)
	if !ok {
		return packets.ErrServerUnavailable
	}
	if reason := protocol.ClientID("").Rule().Check(cl.ID); reason != "" {
		return packets.Code{Code: packets.ErrClientIdentifierNotValid.Code, Reason: "client id " + reason}
	}
	if pk.Properties.AuthenticationMethod != "" {
		return packets.ErrBadAuthenticationMethod
	}

	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	principal, err := b.options.Authenticate(ctx, Credentials{
		ClientID: cl.ID,
		Username: string(pk.Connect.Username),
		Password: pk.Connect.Password,
		Peer:     c.peer,
		Remote:   c.RemoteAddr(),
		Listener: c.listener,
	})
	if err != nil || principal == nil {
		b.log.Info("connection refused", "client", cl.ID, "listener", c.listener, "remote", c.RemoteAddr(), "error", err)
		return refusal(err)
	}

	s := &session{
		client: &Client{
			ID:        cl.ID,
			Principal: principal,
			Remote:    c.RemoteAddr(),
			Listener:  c.listener,
			Version:   cl.Properties.ProtocolVersion,
		},
		engine:   cl,
		presence: b.options.Presence,
		ended:    make(chan struct{}),
	}
	if code := b.claim(s); code != packets.CodeSuccess {
		return code
	}
	c.session = s
	return packets.CodeSuccess
}

// refusal is the CONNACK reason for a failed authentication.
func refusal(err error) packets.Code {
	switch code := protocol.CodeOf(err); {
	case code == "", code == protocol.NotAuthenticated, code == protocol.CredentialInvalid:
		return packets.ErrBadUsernameOrPassword
	case code[0] == '2':
		return packets.ErrNotAuthorized
	}
	return packets.ErrServerUnavailable
}

// v3Refusal is the MQTT 3.1.1 return code for an MQTT 5 reason.
func v3Refusal(code packets.Code) byte {
	switch code.Code {
	case packets.ErrClientIdentifierNotValid.Code:
		return 2
	case packets.ErrServerUnavailable.Code:
		return 3
	case packets.ErrBadUsernameOrPassword.Code:
		return 4
	}
	return 5
}

// OnConnectAuthenticate passes: OnConnect has decided.
func (h *hook) OnConnectAuthenticate(*mqtt.Client, packets.Packet) bool { return true }

// OnSessionEstablished tells about the subscriptions of a resumed session.
func (h *hook) OnSessionEstablished(cl *mqtt.Client, _ packets.Packet) {
	s := sessionOf(cl)
	for filter := range cl.State.Subscriptions.GetAll() {
		s.tell(func(p Presence) { p.Subscribed(s.client, filter) })
	}
}

// OnClientExpired gives up what is left of a kept session.
func (h *hook) OnClientExpired(cl *mqtt.Client) {
	h.broker.server.UnsubscribeClient(cl)
	cl.ClearInflights()
	h.broker.forget(cl)
}

// OnACLCheck passes: OnPublish and OnSubscribe have more to decide on.
func (h *hook) OnACLCheck(*mqtt.Client, string, bool) bool { return true }

// OnPublish checks the permission and shows the publication to the handlers.
func (h *hook) OnPublish(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	s := sessionOf(cl)
	if s == nil { // the bridge's own
		return pk, nil
	}
	verdict := h.broker.options.Permissions.MayPublish(s.client, pk.TopicName, pk.FixedHeader.Retain)
	if !verdict.Allowed() {
		h.refusePublish(s, pk, verdict)
		return pk, packets.ErrRejectPacket
	}
	h.show(s.client, pk)
	return pk, nil
}

// refusePublish answers a publish that will not be routed. MQTT 3.1.1 has no
// way to say so but closing the connection, which a device answers by trying
// again for ever; such a publish is acknowledged and dropped.
func (h *hook) refusePublish(s *session, pk packets.Packet, verdict Verdict) {
	h.broker.log.Debug("publish refused", "client", s.client.ID, "topic", pk.TopicName, "reason", verdict.Text)
	if pk.FixedHeader.Qos == 0 {
		return
	}
	ack := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Puback},
		PacketID:    pk.PacketID,
		ReasonCode:  verdict.Reason,
		Properties:  packets.Properties{ReasonString: verdict.Text},
	}
	if pk.FixedHeader.Qos == 2 {
		ack.FixedHeader.Type = packets.Pubrec
	}
	_ = s.engine.WritePacket(ack)
}

func (h *hook) show(c *Client, pk packets.Packet) {
	var p *Publication
	for _, handler := range h.broker.handlers {
		if !protocol.Match(handler.filter, pk.TopicName) {
			continue
		}
		if p == nil {
			p = &Publication{Client: c, Message: message(pk)}
		}
		handler.fn(p)
	}
}

func message(pk packets.Packet) Message {
	m := Message{
		Topic:           pk.TopicName,
		Payload:         pk.Payload,
		QoS:             pk.FixedHeader.Qos,
		Retain:          pk.FixedHeader.Retain,
		Expiry:          time.Duration(pk.Properties.MessageExpiryInterval) * time.Second,
		ContentType:     pk.Properties.ContentType,
		ResponseTopic:   pk.Properties.ResponseTopic,
		CorrelationData: pk.Properties.CorrelationData,
	}
	for _, p := range pk.Properties.User {
		m.UserProperties = append(m.UserProperties, UserProperty{Key: p.Key, Value: p.Val})
	}
	return m
}

// refusedWill is where a will goes that may not be published: wildcards do
// not cover it, and nobody may publish to it.
const refusedWill = "$refused"

// OnWill judges a will when it fires. The engine can't be told to drop it.
func (h *hook) OnWill(cl *mqtt.Client, will mqtt.Will) (mqtt.Will, error) {
	s := sessionOf(cl)
	verdict := h.broker.options.Permissions.MayPublish(s.client, will.TopicName, will.Retain)
	if verdict.Allowed() {
		return will, nil
	}
	h.broker.log.Info("will refused", "client", s.client.ID, "topic", will.TopicName, "reason", verdict.Text)
	return mqtt.Will{TopicName: refusedWill}, nil
}

// OnWillSent shows a will to the handlers.
func (h *hook) OnWillSent(cl *mqtt.Client, pk packets.Packet) {
	if s := sessionOf(cl); s != nil && pk.TopicName != refusedWill {
		h.show(s.client, pk)
	}
}

// OnSubscribe checks permissions. A refused filter is made one that the
// engine refuses; OnPacketEncode then puts the true reason into the SUBACK.
func (h *hook) OnSubscribe(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	s := sessionOf(cl)
	s.verdicts = make([]Verdict, len(pk.Filters))
	for i, sub := range pk.Filters {
		_, filter, _ := protocol.SplitShare(sub.Filter)
		s.verdicts[i] = h.broker.options.Permissions.MaySubscribe(s.client, filter)
		if !s.verdicts[i].Allowed() {
			pk.Filters[i].Filter = ""
		}
	}
	return pk
}

// OnSubscribed tells about what was granted.
func (h *hook) OnSubscribed(cl *mqtt.Client, pk packets.Packet, reasons []byte) {
	s := sessionOf(cl)
	for i, sub := range pk.Filters {
		if reasons[i] < packets.ErrUnspecifiedError.Code {
			s.tell(func(p Presence) { p.Subscribed(s.client, sub.Filter) })
		}
	}
}

// OnUnsubscribed tells about an UNSUBSCRIBE. The engine also calls it,
// without a packet id, when a session ends.
func (h *hook) OnUnsubscribed(cl *mqtt.Client, pk packets.Packet) {
	s := sessionOf(cl)
	if s == nil || pk.PacketID == 0 {
		return
	}
	for _, sub := range pk.Filters {
		s.tell(func(p Presence) { p.Unsubscribed(s.client, sub.Filter) })
	}
}

// OnSelectSubscribers prefers connected members of shared subscriptions.
func (h *hook) OnSelectSubscribers(subs *mqtt.Subscribers, _ packets.Packet) *mqtt.Subscribers {
	for _, group := range subs.Shared {
		var chosen string
		for id := range group { // map order is the load balancer
			chosen = id
			if h.broker.connected(id) {
				break
			}
		}
		sub := group[chosen]
		if already, ok := subs.SharedSelected[chosen]; ok {
			sub = already.Merge(sub)
		}
		subs.SharedSelected[chosen] = sub
	}
	return subs
}

// OnPacketEncode completes acknowledgements.
func (h *hook) OnPacketEncode(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	switch pk.FixedHeader.Type {
	case packets.Connack:
		pk.Properties.MaximumPacketSize = uint32(h.broker.options.MaxPacket)
	case packets.Suback:
		s := sessionOf(cl)
		for i, verdict := range s.verdicts {
			if verdict.Allowed() || cl.Properties.ProtocolVersion < 5 || i >= len(pk.ReasonCodes) {
				continue
			}
			pk.ReasonCodes[i] = verdict.Reason
			pk.Properties.ReasonString = verdict.Text
		}
		s.verdicts = nil
	}
	return pk
}
