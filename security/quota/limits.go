package quota

import "github.com/aibridge/aibridge/protocol"

// Limits bound the use of one party; 0 is no bound. Rates allow for one
// second's worth at once.
type Limits struct {
	Requests    int // commands a second, those of batches one by one
	Refusals    int // commands a second that are refused
	Messages    int // MQTT messages a second that are no commands
	Bytes       int // of commands and messages a second
	Connections int // at a time, MQTT and WebSocket
	Retained    int // messages kept for it at a time

	RetainedBytes int // topics, payloads and properties of these
	Sessions      int // MQTT sessions that outlive their connections
}

// none reports whether nothing is limited.
func (l Limits) none() bool { return l == Limits{} }

// rate is the limit of a rate.
func (l Limits) rate(of kind) int {
	switch of {
	case requests:
		return l.Requests
	case refusals:
		return l.Refusals
	case messages:
		return l.Messages
	}
	return l.Bytes
}

// A kind names a limited resource, in metrics and details of errors.
type kind string

// Kinds of kept things, for [Keeper.Refused].
const (
	Retained      = retained
	RetainedBytes = retainedBytes
	Sessions      = sessions
)

const (
	requests    kind = "requests"
	refusals    kind = "refusals"
	messages    kind = "messages"
	bytes       kind = "bytes"
	connections kind = "connections"
	retained    kind = "retained"

	retainedBytes kind = "retained_bytes"
	sessions      kind = "sessions"
	records       kind = "records"
)

var kinds = []kind{requests, refusals, messages, bytes, connections, retained, retainedBytes, sessions, records}

// Whose limit it is, as metrics and details call it.
const (
	ofPrincipal = "principal"
	ofSpace     = "space"
)

// unlimited are the bridge itself and its like.
func unlimited(who *protocol.Principal) bool { return who == nil || who.Kind == protocol.KindBridge }
