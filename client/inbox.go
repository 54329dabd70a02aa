package client

import (
	"cmp"
	"sync"

	"github.com/aibridge/aibridge/protocol"
)

// maxEvents bounds the events that wait while their handler is busy with an earlier one.
const maxEvents = 64

// An inbox passes answers to the calls that wait for them.
type inbox struct {
	mu      sync.Mutex
	waiting map[string]*waiter
}

// A waiter waits for the answer to one request.
type waiter struct {
	answer chan *protocol.Response // has room for one; more are repeats
	events chan *protocol.Event    // nil for calls that want none
}

func newInbox() *inbox { return &inbox{waiting: make(map[string]*waiter)} }

// await opens a waiter for a request id. Two calls at a time with one id are
// refused: only one of them could be answered.
func (x *inbox) await(id string, events bool) (*waiter, bool) {
	w := &waiter{answer: make(chan *protocol.Response, 1)}
	if events {
		w.events = make(chan *protocol.Event, maxEvents)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.waiting[id] != nil {
		return nil, false
	}
	x.waiting[id] = w
	return w, true
}

func (x *inbox) leave(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.waiting, id)
}

func (x *inbox) find(id string) *waiter {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.waiting[id]
}

// deliver takes a message on the response topic. A message that no call waits for
// is dropped. The call is found by the correlation data, or without it by the id.
func (x *inbox) deliver(m *Message) {
	id := string(m.CorrelationData)
	if id != "" && x.find(id) == nil {
		return // answered, or given up
	}
	decoded, err := protocol.DecodeEnvelope(m.Payload, protocol.Limits{MaxBytes: len(m.Payload)})
	if decoded.Event != nil {
		if w := x.find(cmp.Or(id, decoded.Event.ID)); w != nil && w.events != nil && err == nil {
			select {
			case w.events <- decoded.Event:
			default:
			}
		}
		return
	}
	response := decoded.Response
	if response == nil || err != nil {
		if id == "" {
			return
		}
		response = &protocol.Response{ID: id, Err: protocol.Wrap(protocol.OutcomeUnknown, err, "the bridge's answer cannot be read")}
	}
	if w := x.find(cmp.Or(id, response.ID)); w != nil {
		select {
		case w.answer <- response:
		default:
		}
	}
}
