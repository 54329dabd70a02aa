package app

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"

	"github.com/aibridge/aibridge/broker"
	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/quota"
)

// An mqttSide is what stands between the broker, which knows nothing of
// agents, and the parts that know nothing of MQTT. It only translates.
type mqttSide struct {
	topics        protocol.Topics
	requests      string // the topic of commands
	log           *slog.Logger
	broker        *broker.Broker
	door          *mqttdoor.Door
	registry      *registry.Service
	authenticator *security.Authenticator
	rights        *security.TopicRights
	credentials   *security.Credentials

	clients      sync.Map // of *broker.Client by broker.SessionID, while connected
	quotas       *quota.Keeper
	memories     sync.Map // of *presence by *broker.Client, while connected
	live         liveSubscriptions
	leaving      departures
	reviews      chan struct{} // asks for a review of all of them
	factsChanged func()
}

func addressOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr()
	}
	if a == nil {
		return netip.Addr{}
	}
	from, _ := netip.ParseAddrPort(a.String())
	return from.Addr()
}

// owner is the principal whose client uses an id of a space right now.
func (m *mqttSide) owner(space protocol.SpaceID, clientID string) (*protocol.Principal, bool) {
	c, ok := m.clients.Load(broker.SessionID{Space: space, Client: clientID})
	if !ok {
		return nil, false
	}
	return c.(*broker.Client).Principal(), true
}

// MayPublish implements [broker.Permissions].
func (m *mqttSide) MayPublish(c *broker.Client, topic string, retain bool) broker.Verdict {
	if memory, ok := m.memories.Load(c); ok {
		return broker.Verdict(m.rights.MayPublishFrom(&memory.(*presence).memory, c.Principal(), topic, retain))
	}
	who, err := m.credentials.Rights(grant.Of(c.Principal())) // a Will, which may be from before a restart
	if err != nil {
		return broker.NotAuthorized(protocol.AsError(err).Message)
	}
	return broker.Verdict(m.rights.MayPublish(who, topic, retain))
}

// mayWill lets nothing be heard of a client whose credential was revoked, the
// Will that it left least of all. A credential that has merely expired was good
// when the Will was left.
func (m *mqttSide) mayWill(c *broker.Client) broker.Verdict {
	if _, err := m.credentials.Rights(grant.Of(c.Principal())); err != nil {
		return broker.NotAuthorized(protocol.AsError(err).Message)
	}
	return broker.Verdict{}
}

// MaySubscribe implements [broker.Permissions].
func (m *mqttSide) MaySubscribe(c *broker.Client, filter string) broker.Verdict {
	return broker.Verdict(m.rights.MaySubscribe(c.Principal(), filter))
}

// Connected implements [broker.Presence].
func (m *mqttSide) Connected(c *broker.Client) {
	m.clients.Store(c.Session(), c)
	m.entered(c)
	m.recheck(c)
	m.registry.Connected(c, c.ID, c.Principal())
}

// Disconnected implements [broker.Presence].
func (m *mqttSide) Disconnected(c *broker.Client, reason string) {
	m.clients.CompareAndDelete(c.Session(), c)
	m.parted(c)
	m.live.drop(c)
	m.leaves(c.Session())
	m.registry.Disconnected(c, reason)
}

// Subscribed implements [broker.Presence].
func (m *mqttSide) Subscribed(c *broker.Client, filter string) {
	m.registry.Subscribed(c, filter)
	m.joined(c, filter)
}

// Unsubscribed implements [broker.Presence].
func (m *mqttSide) Unsubscribed(c *broker.Client, filter string) {
	m.registry.Unsubscribed(c, filter)
	m.left(c, filter)
}

// request takes a command.
func (m *mqttSide) request(p *broker.Publication) { m.door.Request(p) }

// handled is told when what has come for the handlers was shown to them.
func (m *mqttSide) handled() { m.door.Flush() }

// response takes what an agent answers.
func (m *mqttSide) response(p *broker.Publication) {
	m.registry.Answer(p.Topic, p.Client.Principal(), p.Payload, p.CorrelationData)
}

// disconnect ends a connection whose agent was taken over by another client.
// A connection that has been replaced meanwhile is left alone.
func (m *mqttSide) disconnect(conn any, reason string) {
	c := conn.(*broker.Client)
	if current, ok := m.clients.Load(c.Session()); ok && current == conn {
		go m.broker.Disconnect(c.Session(), 0x8E, reason) // 0x8E: session taken over
	}
}

// Publish implements [registry.Publisher].
func (m *mqttSide) Publish(to protocol.Recipients, message protocol.Message) (int, error) {
	return m.broker.Publish(to, message)
}

// publishTaskEvent tells an event of a task on its topic.
func (m *mqttSide) publishTaskEvent(to protocol.Recipients, id protocol.TaskID, e *protocol.Event) {
	if _, err := m.broker.Publish(to, protocol.Message{
		Topic:       m.topics.TaskEvent(id),
		Payload:     e.Append(nil),
		QoS:         1,
		ContentType: protocol.ContentJSON,
	}); err != nil {
		m.log.Warn("an event of a task is not published", "task", id, "error", err)
	}
}
