package session

import (
	"iter"
	"math"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A Broker keeps the sessions.
type Broker interface {
	// Sessions yields all sessions, connected or kept, in any order. What it
	// yields need not have Filters.
	Sessions() iter.Seq[Info]
	// Session describes the session of a client id in a space.
	Session(space protocol.SpaceID, clientID string) (Info, bool)
	// Kick disconnects the client of a session by administrative action and,
	// with forget, ends the session too. It reports whether there was one.
	Kick(space protocol.SpaceID, clientID string, forget bool) bool
	// StartTrace takes note of the packets of a session until a time. found
	// reports whether there is the session, room whether it can be traced beside
	// others.
	StartTrace(space protocol.SpaceID, clientID string, ends time.Time) (found, room bool)
	// Trace returns up to limit headlines of a trace, after the one with a number.
	Trace(space protocol.SpaceID, clientID string, after uint64, limit int) (Trace, bool)
	// StopTrace forgets a trace. It reports whether there was one.
	StopTrace(space protocol.SpaceID, clientID string) bool
}

// An Info describes a session.
type Info struct {
	ClientID      string
	Principal     string           // id of the owner
	Space         protocol.SpaceID // of the owner; "" is the default space
	Method        string           // how the owner authenticated last
	Credential    string           // its id, of that time
	Connected     bool
	Since         time.Time     // of the connection, while connected
	Remote        string        // address of the client, while connected
	Listener      string        // by which it came, last
	Version       byte          // of MQTT: 3, 4 for 3.1.1, 5
	Expiry        time.Duration // how long it is kept without a connection
	Expires       time.Time     // when it ends, while it is not connected
	Subscriptions int
	Filters       []Filter
	Inflight      int       // messages sent and not acknowledged
	Queued        int       // messages that wait
	Dropped       uint64    // messages that found no room
	Late          time.Time // since when messages wait for a connected client; zero if it keeps up
	QueuedBytes   int       // of these
	Outbox        int       // bytes the client's socket has not taken
	Will          string    // topic of the will, "" without one
}

// A Filter is one subscription of a session.
type Filter struct {
	Filter string `json:"filter" doc:"topic filter"`
	QoS    byte   `json:"qos" doc:"granted QoS"`
	Shared bool   `json:"shared,omitempty" doc:"one of a group takes each message"`
}

// A Service runs the commands.
type Service struct {
	broker Broker
	bridge string
	others Others
}

// New returns the service for the sessions of a broker. Where there are other
// bridges, it asks them for sessions that the broker does not have, and names their
// bridge.
func New(b Broker, bridge string, others Others) *Service {
	if others == nil {
		bridge = ""
	}
	return &Service{broker: b, bridge: bridge, others: others}
}

// Commands are the commands of the family.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{
		commands.New(list, s.List),
		commands.New(get, s.Get),
		commands.New(kick, s.Kick),
		commands.New(traceStart, s.TraceStart),
		commands.New(traceGet, s.TraceGet),
		commands.New(traceStop, s.TraceStop),
	}
}

// A View is a session as callers see it in a list.
type View struct {
	ClientID      string           `json:"client_id" doc:"client id of the session, unique in its space"`
	Principal     string           `json:"principal" doc:"owner of the session"`
	Space         protocol.SpaceID `json:"space_id" doc:"id of the space of the session's owner"`
	Method        string           `json:"method,omitempty" doc:"way in which the client authenticated last: apikey, jwt, certificate or anonymous"`
	Credential    string           `json:"credential,omitempty" doc:"id of the key, token or certificate it showed then"`
	State         State            `json:"state" doc:"connected, or kept for a client that is away"`
	Protocol      string           `json:"protocol" doc:"version of MQTT, 5.0, 3.1.1 or 3.1"`
	Listener      string           `json:"listener,omitempty" doc:"the door by which the client came in"`
	Remote        string           `json:"remote,omitempty" doc:"address of a connected client"`
	ExpiresAt     int64            `json:"expires_at,omitempty" doc:"time at which a kept session ends, Unix milliseconds; absent if it never does"`
	Subscriptions int              `json:"subscriptions" doc:"number"`
	Inflight      int              `json:"inflight" doc:"messages sent and not acknowledged"`
	Queued        int              `json:"queued" doc:"messages that wait"`
	Dropped       int64            `json:"dropped" doc:"messages that found no room: of QoS 1 and 2 since the bridge has the session, of QoS 0 since the client connected"`
	LateSince     int64            `json:"late_since,omitempty" doc:"time since which messages wait for a connected client, Unix milliseconds; absent if it keeps up"`
	Bridge        string           `json:"bridge_id,omitempty" doc:"the bridge of a cluster that has it; absent where one works alone"`
}

// A State says whether a session has a client.
type State string

// The states of a session.
const (
	Connected State = "connected"
	Kept      State = "kept" // without a connection, until it expires
)

func (i *Info) state() State {
	if i.Connected {
		return Connected
	}
	return Kept
}

func (i *Info) space() protocol.SpaceID { return spaceOr(i.Space) }

func (s *Service) view(i *Info) View {
	v := View{
		Bridge:   s.bridge,
		ClientID: i.ClientID, Principal: i.Principal, Space: i.space(), Method: i.Method, Credential: i.Credential, State: i.state(),
		Protocol: protocolName(i.Version), Listener: i.Listener, Remote: i.Remote,
		Subscriptions: i.Subscriptions, Inflight: i.Inflight, Queued: i.Queued,
		Dropped: int64(min(i.Dropped, math.MaxInt64)),
	}
	if !i.Late.IsZero() {
		v.LateSince = i.Late.UnixMilli()
	}
	if !i.Connected && !i.Expires.IsZero() {
		v.ExpiresAt = i.Expires.UnixMilli()
	}
	return v
}

func protocolName(version byte) string {
	switch version {
	case 3:
		return "3.1"
	case 4:
		return "3.1.1"
	}
	return "5.0"
}

func spaceOr(s protocol.SpaceID) protocol.SpaceID {
	if s == "" {
		return protocol.DefaultSpace
	}
	return s
}

// in is the space a call is about: the one it names, if the caller may see it,
// or the caller's own. Whether another exists is not told.
func in(call *commands.Call, named protocol.SpaceID) (protocol.SpaceID, error) {
	who := call.Principal
	home := spaceOr(who.Space)
	switch {
	case named == "" || named == home:
		return home, nil
	case who.Administrator() || who.HasRole(protocol.RoleAnonymous):
		return named, nil
	}
	return "", protocol.Errorf(protocol.NotFound, "there is no space %q", named).With("space_id", named)
}

// find looks up a session that this bridge has.
func (s *Service) find(space protocol.SpaceID, clientID string) (Info, error) {
	i, ok := s.broker.Session(space, clientID)
	if !ok {
		return Info{}, notFound(clientID)
	}
	return i, nil
}

func notFound(clientID string) error {
	return protocol.Errorf(protocol.NotFound, "there is no session of client %q", clientID).With("client_id", clientID)
}

// Params name a session.
type Params struct {
	// ClientID is any that MQTT allows, not only what could be a topic level.
	ClientID string           `json:"client_id" len:"1-65535" doc:"id of the MQTT client"`
	Space    protocol.SpaceID `json:"space_id,omitempty" doc:"the space of the session's owner, the caller's own by default"`
}

// Target implements [commands.Targeter].
func (p Params) Target() commands.Resource {
	return commands.Resource{Type: "session", ID: p.ClientID, Space: p.Space}
}
