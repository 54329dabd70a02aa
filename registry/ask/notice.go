package ask

import (
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Listener hears what becomes of a request. Of a durable request it may hear
// with locks held: it must then neither block nor call the [Service].
type Listener interface{ Hear(Notice) }

// A ListenerFunc is a function that is a [Listener].
type ListenerFunc func(Notice)

// Hear implements [Listener].
func (f ListenerFunc) Hear(n Notice) { f(n) }

// A Notice is news of a request: its outcome, or a sign before it. A caller who waits
// hears the outcome alone, and may keep nothing of Data after Hear has returned.
type Notice struct {
	Kind  Kind
	Agent protocol.AgentID // that was asked, "" for an endpoint
	Data  json.RawMessage  // the result of Answered, the event of Progressed
	Err   *protocol.Error  // of Failed and Rejected
	Open  bool             // of Failed: it may have been done all the same
	Since time.Time        // of Forgotten: the agent has listened since then, zero if it does not say
}

// A Kind is the kind of a [Notice].
type Kind uint8

// The outcomes: nothing is heard of the request later.
const (
	Failed   Kind = iota // with an error
	Answered             // with a result
	Rejected             // by an agent that does not take the task
)

// The signs of a durable request before its outcome.
const (
	Accepted   Kind = iota + Rejected + 1 // the agent has taken the task
	Progressed                            // the agent tells how it is getting on
	Left                                  // the agent is not there, or did not get the request
	Forgotten                             // the agent knows nothing of the request
	Mute                                  // the agent cannot be asked for results
)

// Ends reports whether the kind is an outcome.
func (k Kind) Ends() bool { return k <= Rejected }
