package doctor

import (
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Agents knows the registered agents.
type Agents interface {
	// Examine describes an agent. known is whether one of the id is registered in
	// the space.
	Examine(space protocol.SpaceID, id protocol.AgentID) (a Agent, known bool)
	// NotFound is the error for an agent of which nothing is known.
	NotFound(who *protocol.Principal, named protocol.SpaceID, id protocol.AgentID) error
	// Behind are the agents that a client of a party speaks for.
	Behind(party protocol.Party, clientID string) []protocol.AgentID
}

// An Agent is the registry's record of an agent.
type Agent struct {
	Owner        protocol.Party
	ClientID     string // of the client that registered it, "" for other ways
	RegisteredAt time.Time
	Online       bool
	Suspended    bool          // the certificate that it was registered with has ended
	LastBeat     time.Time     // heartbeat, zero without one
	Heartbeat    time.Duration // the interval between two
	Missed       bool          // it sent heartbeats and does no longer
	Clients      []string      // ids of its MQTT clients that are connected
	Listening    []string      // of them, those that listen to its request topic
	Line         bool          // it is connected over WebSocket
	Endpoints    int           // that can be called
	Offline      string        // why it went offline last, "" if it did not
	Skew         time.Duration // its clock is ahead of the bridge's
	SkewKnown    bool
	Skills       []Skill
	Open         int // requests that it has not answered yet
}

// A Skill is one that an agent provides.
type Skill struct {
	ID       protocol.SkillID
	Warnings []string // doubts about its schemas
}

// Clients knows the MQTT sessions.
type Clients interface {
	Session(space protocol.SpaceID, clientID string) (Session, bool)
}

// A Session is an MQTT session.
type Session struct {
	ClientID  string
	Principal string              // id of the owner
	Who       *protocol.Principal // the connected client's, nil without one
	Since     time.Time           // of the connection, zero without one
	Remote    string
	Listener  string
	Filters   []string // the first 100
	Queued    int      // messages that wait
	Inflight  int      // sent and not acknowledged
}

// Credentials knows the records of credentials.
type Credentials interface {
	// Of lists the credentials of a party, valid ones first.
	Of(party protocol.Party) []Credential
	// Principal is the principal of the newest valid credential, nil without one.
	Principal(party protocol.Party) *protocol.Principal
}

// A Credential is one that a party has or had.
type Credential struct {
	Kind    string // API key, certificate or password
	ID      string // which is no secret
	Expired bool
	Revoked bool
	Expires time.Time // zero never
}

// Rights check the rights of principals.
type Rights interface {
	MayRegister(who *protocol.Principal, space protocol.SpaceID, id protocol.AgentID) bool
	// MayPublish and MaySubscribe return the reason for a refusal, "" if there is none.
	MayPublish(who *protocol.Principal, topic string) string
	MaySubscribe(who *protocol.Principal, filter string) string
}

// Quotas list the limits that a principal has reached, in words.
type Quotas interface {
	Reached(who *protocol.Principal) []string
}
