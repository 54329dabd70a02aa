package ask

import (
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Listener gets the notices of a request. Those of a durable request may come with
// locks held: it must then neither block nor call the [Service].
type Listener interface{ Hear(Notice) }

// A ListenerFunc is a function that is a [Listener].
type ListenerFunc func(Notice)

// Hear implements [Listener].
func (f ListenerFunc) Hear(n Notice) { f(n) }

// A Notice is the outcome of a request, or an event before it. A waiting caller gets
// the outcome alone, and must not retain Data after Hear has returned.
type Notice struct {
	Kind  Kind
	Agent protocol.AgentID // agent of the request, "" for an endpoint
	Data  json.RawMessage  // the result of Answered, the event of Progressed
	Err   *protocol.Error  // of Failed and Rejected
	Open  bool             // of Failed: the request may have been carried out
	Since time.Time        // of Forgotten: beginning of the agent's subscription, zero if unknown
}

// A Kind is the kind of a [Notice].
type Kind uint8

// The outcomes, after which there are no further notices.
const (
	Failed   Kind = iota // with an error
	Answered             // with a result
	Rejected             // by an agent that refuses the task
)

// The signs of a durable request before its outcome.
const (
	Accepted   Kind = iota + Rejected + 1 // the agent has taken the task
	Progressed                            // an event of progress of the agent
	Left                                  // the agent is offline, or did not get the request
	Forgotten                             // the agent does not know the request
	Mute                                  // the agent cannot be asked for results
)

// Ends reports whether the kind is an outcome.
func (k Kind) Ends() bool { return k <= Rejected }
