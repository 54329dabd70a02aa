package drill

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"
)

// A Kind is the kind of an event.
type Kind string

// The events that clients see.
const (
	Opened     Kind = "opened"     // a connection was accepted; Present: with the session there was
	Subscribed Kind = "subscribed" // all subscriptions of a connection stand
	Closed     Kind = "closed"     // a connection ended; Code is the reason of DISCONNECT, "" without one
	Moved      Kind = "moved"      // a client went to another node while connected; Code is how its old connection ended

	Sent    Kind = "sent"    // a message, each time it was sent
	Acked   Kind = "acked"   // PUBACK or PUBCOMP of success
	Refused Kind = "refused" // PUBACK or PUBREC with an error
	Got     Kind = "got"     // a message, each time it was handed to the listener

	Retained Kind = "retained" // a new subscriber on Node was given Number as the retained message of Stream, 0 for none

	Executed Kind = "executed" // an agent ran the call with this ID
	Asked    Kind = "asked"    // first request of the call, registration or task with this ID; Stream tells which
	Answered Kind = "answered" // its final answer: Code is "" for success; Present: a work continues after it
	Stored   Kind = "stored"   // check at Node of the acknowledged registration with this ID: Code is "" if it exists
	Ended    Kind = "ended"    // state of the task with this ID at the end of the round: Code, "running" if it has not ended

	Wanted  Kind = "wanted"  // a model asked a tool for the step with this ID, the first time
	Heard   Kind = "heard"   // its result reached the model: Code is "" for success
	Agreed  Kind = "agreed"  // beginning of the approval of the call that the work with this ID waits for
	Decided Kind = "decided" // and that was acknowledged by Node
	Done    Kind = "done"    // the work with this ID came to its end, in the state Code

	WillSet Kind = "will-set" // a client connected with the will ID
	WillDue Kind = "will-due" // its connection ended without DISCONNECT and it stays away
	WillGot Kind = "will-got" // the will ID was published

	Probed Kind = "probed" // probe of Node, which reported readiness before and after it; Code is "" for success

	GaveUp Kind = "gave-up" // the bridge Node ended by itself, and is started again

	RoundBegun Kind = "round"     // the load of a round begins
	FaultBegun Kind = "fault"     // Fault, on Node
	FaultEnded Kind = "healed"    // the fault has ended
	LoadEnded  Kind = "drain"     // nothing new is sent
	Settled    Kind = "settled"   // all promises are kept
	Unsettled  Kind = "unsettled" // the patience is over; Code lists the broken promises
)

// An Event is an observation of a client. Fields without a meaning for its kind are
// zero.
type Event struct {
	At         time.Duration `json:"at"` // since the drill began
	Kind       Kind          `json:"kind"`
	Client     string        `json:"client,omitempty"`
	Node       string        `json:"node,omitempty"`       // bridge that the client was connected to
	Connection int           `json:"connection,omitempty"` // of the client, from 1
	Present    bool          `json:"present,omitempty"`
	Kept       bool          `json:"kept,omitempty"`   // the client's session outlives its connections
	Stream     string        `json:"stream,omitempty"` // of messages
	Number     int           `json:"number,omitempty"` // in the stream, from 1; steps of a work
	QoS        byte          `json:"qos,omitempty"`
	ID         string        `json:"id,omitempty"`
	Code       string        `json:"code,omitempty"`
	Fault      Fault         `json:"fault,omitempty"`
}

// A History holds the events of all clients, in one order.
type History []Event

// since returns the part of a history from the beginning of a round on, preceded by the
// earlier events of connections.
func (h History) since(round int) History {
	begun := slices.IndexFunc(h, func(e Event) bool { return e.Kind == RoundBegun && e.Number == round })
	if begun < 0 {
		return h
	}
	var recent History
	for _, e := range h[:begun] {
		switch e.Kind {
		case Opened, Subscribed, Closed:
			recent = append(recent, e)
		}
	}
	return append(recent, h[begun:]...)
}

// WriteJSONL writes a history, one event a line.
func (h History) WriteJSONL(w io.Writer) error {
	buffered := bufio.NewWriter(w)
	lines := json.NewEncoder(buffered)
	for _, e := range h {
		if err := lines.Encode(e); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

// A recorder writes a history.
type recorder struct {
	began time.Time

	mu     sync.Mutex
	events History
}

func newRecorder() *recorder { return &recorder{began: time.Now()} }

func (r *recorder) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At = time.Since(r.began)
	r.events = append(r.events, e)
}

// history is the record until now. It is not changed afterwards.
func (r *recorder) history() History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events[:len(r.events):len(r.events)]
}
