package mqtt

import (
	"context"
	"strings"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/doors/mqtt/delayed"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/quota"
)

// Agents are told which clients are connected and listen, and what agents
// answer. Calls must not block.
type Agents interface {
	Connected(conn any, clientID string, who *protocol.Principal)
	Disconnected(conn any, reason string)
	Subscribed(conn any, filter string)
	Unsubscribed(conn any, filter string)
	Answer(topic string, who *protocol.Principal, replies *protocol.Replies, payload, correlation []byte)
}

// Topics are the rules of topics besides those of policy. Calls must not block.
type Topics interface {
	MayPublish(c *broker.Client, topic string, retain bool) broker.Verdict
	MaySubscribe(c *broker.Client, filter string) broker.Verdict
	// Connected and Disconnected are told that a client came or went.
	Connected(c *broker.Client)
	Disconnected(c *broker.Client)
}

// A Profile is a use of topics that begin with $ by rules of its own.
type Profile struct {
	Root string // begins its topics
	// Topics yields the rules. It is asked once there are clients.
	Topics func() Topics
}

// An Authenticator says who a client is. [security.Authenticator] is one.
type Authenticator interface {
	// Password judges a certificate, user name and password.
	Password(ctx context.Context, s security.Shown, user string, password []byte) (*protocol.Principal, error)
	// Recognise does so without waiting; nil is for Password to decide.
	Recognise(s security.Shown, user string, password []byte) *protocol.Principal
	// Authenticate judges a token or a key.
	Authenticate(ctx context.Context, s security.Shown) (*protocol.Principal, error)
}

// ServerOptions configure the MQTT server of a bridge. All are needed.
type ServerOptions struct {
	Clients       *Clients
	Agents        Agents
	Authenticator Authenticator
	Credentials   *security.Credentials
	Rights        *security.TopicRights
	Quotas        *quota.Keeper
	Profiles      []Profile
	// Broker is the rest: NewServer fills in who comes in and what they may do.
	Broker broker.Options
}

// NewServer returns an MQTT server with the rules of the bridge: who comes in,
// which topics they use, how much they take, and who learns of it. Its clients
// are those of the options from now on.
func NewServer(o ServerOptions) (*broker.Broker, error) {
	s := &server{Clients: o.Clients, ServerOptions: o, requests: o.Clients.topics.BridgeRequest()}
	with := o.Broker
	with.Authenticate, with.Recognise, with.Enhanced, with.Renewed = s.authenticate, s.recognise, s.enhanced(), s.renewed
	with.Permissions, with.MayWill, with.Presence, with.Quota = s, s.mayWill, s, s.quota()
	with.ResponseInfo = func(c *broker.Client) string { return s.topics.ClientResponse(c.ID) }
	var err error
	if s.broker, err = broker.New(with); err != nil {
		return nil, err
	}
	s.broker.Handle(s.topics.AgentResponse("+"), s.response)
	s.Clients.server.Store(s)
	return s.broker, nil
}

// A server stands between the broker, which knows nothing of agents,
// and the parts that know nothing of MQTT.
type server struct {
	*Clients
	ServerOptions
	broker   *broker.Broker
	requests string // the topic of commands
}

// MayPublish implements [broker.Permissions].
func (s *server) MayPublish(c *broker.Client, topic string, retain bool) broker.Verdict {
	if strings.HasPrefix(topic, delayed.Prefix) {
		var wrong string
		if topic, wrong = s.delayed(topic); wrong != "" {
			return broker.Verdict{Reason: topicNameInvalid, Text: wrong}
		}
	}
	if rules := s.rulesOf(topic); rules != nil {
		if v := rules.MayPublish(c, topic, retain); !v.Allowed() {
			return v
		}
	}
	if p := presenceOf(c); p != nil {
		return verdictOf(s.Rights.MayPublishFrom(&p.memory, c.Principal(), topic, retain))
	}
	who, err := s.Credentials.Rights(grant.Of(c.Principal())) // a Will, which may be from before a restart
	if err != nil {
		return broker.NotAuthorized(protocol.AsError(err).Message)
	}
	return verdictOf(s.Rights.MayPublish(who, topic, retain))
}

// verdictOf is the answer of the broker that a ruling gives.
func verdictOf(r security.Ruling) broker.Verdict {
	return broker.Verdict{Reason: r.Reason, Text: r.Text}
}

// topicNameInvalid is a reason code of MQTT 5.
const topicNameInvalid = 0x90

// delayed is the topic on which a delayed message will be published, and is judged.
func (s *server) delayed(name string) (topic, wrong string) {
	_, topic, wrong = delayed.Parse(name)
	if _, ours := s.topics.Under(topic); ours && wrong == "" {
		wrong = "messages to the bridge cannot be delayed"
	}
	return topic, wrong
}

// mayWill lets nothing be heard of a client whose credential was revoked, the
// Will that it left least of all. A credential that has merely expired was good
// when the Will was left.
func (s *server) mayWill(c *broker.Client) broker.Verdict {
	if _, err := s.Credentials.Rights(grant.Of(c.Principal())); err != nil {
		return broker.NotAuthorized(protocol.AsError(err).Message)
	}
	return broker.Verdict{}
}

// MaySubscribe implements [broker.Permissions].
func (s *server) MaySubscribe(c *broker.Client, filter string) broker.Verdict {
	if rules := s.rulesOf(filter); rules != nil {
		if v := rules.MaySubscribe(c, filter); !v.Allowed() {
			return v
		}
	}
	return verdictOf(s.Rights.MaySubscribe(c.Principal(), filter))
}

// rulesOf are the rules of the profile that a topic or a filter belongs to, nil if it
// belongs to none.
func (s *server) rulesOf(topic string) Topics {
	if topic[0] != '$' {
		return nil
	}
	if shared, ok := strings.CutPrefix(topic, "$share/"); ok {
		_, topic, _ = strings.Cut(shared, "/")
	}
	for i := range s.Profiles {
		if strings.HasPrefix(topic, s.Profiles[i].Root) {
			return s.Profiles[i].Topics()
		}
	}
	return nil
}

// Connected implements [broker.Presence].
func (s *server) Connected(c *broker.Client) {
	s.connected.Store(c.Session(), c)
	s.entered(c)
	s.recheck(c)
	s.Agents.Connected(c, c.ID, c.Principal())
	for _, p := range s.Profiles {
		p.Topics().Connected(c)
	}
}

// Disconnected implements [broker.Presence].
func (s *server) Disconnected(c *broker.Client, reason string) {
	s.connected.CompareAndDelete(c.Session(), c)
	s.parted(c)
	s.subscriptions.drop(c)
	s.leaves(c.Session())
	s.Agents.Disconnected(c, reason)
	for _, p := range s.Profiles {
		p.Topics().Disconnected(c)
	}
}

// Subscribed implements [broker.Presence].
func (s *server) Subscribed(c *broker.Client, filter string) {
	s.Agents.Subscribed(c, filter)
	s.joined(c, filter)
	if told, ok := s.rulesOf(s.broker.Inner(filter)).(interface {
		Subscribed(c *broker.Client, filter string)
	}); ok {
		told.Subscribed(c, filter)
	}
}

// Unsubscribed implements [broker.Presence].
func (s *server) Unsubscribed(c *broker.Client, filter string) {
	s.Agents.Unsubscribed(c, filter)
	s.left(c, filter)
}

// response takes what an agent answers.
func (s *server) response(p *broker.Publication) {
	p.HearsMore = true // the next request
	s.Agents.Answer(p.Topic, p.Client.Principal(), &memoryOf(p.Client, s.topics).replies, p.Payload, p.CorrelationData)
}
