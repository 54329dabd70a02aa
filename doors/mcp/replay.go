package mcp

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The bounds of the kept events of one session's streams. They hold for each session,
// so no session displaces the events of another.
const (
	keptEvents  = 128 << 10 // bytes
	keptStreams = 32
)

// A replay keeps the last events of each session's streams. A client whose stream broke
// requests the events after the last one that it has (Last-Event-ID).
type replay struct {
	mu       sync.Mutex
	sessions map[string]*sentEvents
}

var _ sdk.EventStore = (*replay)(nil)

func newReplay() *replay { return &replay{sessions: make(map[string]*sentEvents)} }

// sentEvents are the last events of one session.
type sentEvents struct {
	streams map[string]*sentStream
	order   []string // the stream of each event that is kept, the oldest event first
	bytes   int
	clock   int // counts events and openings
}

// A sentStream is a stream of a session.
type sentStream struct {
	first  int      // index of the first event that is kept
	events [][]byte // in their order
	used   int      // by the clock of the session
	lost   bool     // its events were dropped while it is open
}

// Open implements [sdk.EventStore].
func (r *replay) Open(_ context.Context, session, stream string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sessions[session]
	if s == nil {
		s = &sentEvents{streams: make(map[string]*sentStream)}
		r.sessions[session] = s
	}
	if s.streams[stream] == nil {
		s.begin(stream, false)
	}
	return nil
}

// begin adds a stream, and forgets the one that was used longest ago if there are too many.
func (s *sentEvents) begin(stream string, lost bool) *sentStream {
	s.clock++
	if len(s.streams) >= keptStreams {
		oldest := ""
		for name, other := range s.streams {
			if oldest == "" || other.used < s.streams[oldest].used {
				oldest = name
			}
		}
		for _, event := range s.streams[oldest].events {
			s.bytes -= len(event)
		}
		delete(s.streams, oldest)
		s.order = slices.DeleteFunc(s.order, func(name string) bool { return name == oldest })
	}
	added := &sentStream{used: s.clock, lost: lost}
	s.streams[stream] = added
	return added
}

// Append implements [sdk.EventStore].
func (r *replay) Append(_ context.Context, session, stream string, event []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sessions[session]
	if s == nil {
		return nil // it has ended
	}
	to := s.streams[stream]
	if to == nil {
		to = s.begin(stream, true)
	}
	s.clock++
	to.used = s.clock
	to.events = append(to.events, slices.Clone(event))
	s.order, s.bytes = append(s.order, stream), s.bytes+len(event)
	for s.bytes > keptEvents || len(s.order) > keptEvents/256 { // empty ones take room, too
		s.forget()
	}
	return nil
}

// forget forgets the oldest event.
func (s *sentEvents) forget() {
	from := s.streams[s.order[0]]
	s.order = s.order[1:]
	s.bytes -= len(from.events[0])
	from.events[0] = nil
	from.events = from.events[1:]
	from.first++
}

// errForgotten is the error for a client that requests events that are not kept any
// more.
var errForgotten = errors.New("these events are not kept any more: make the call again, or ask for its task")

// After implements [sdk.EventStore].
func (r *replay) After(_ context.Context, session, stream string, index int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		events, err := r.after(session, stream, index)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, event := range events {
			if !yield(event, nil) {
				return
			}
		}
	}
}

func (r *replay) after(session, stream string, index int) ([][]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sessions[session]
	if s == nil || s.streams[stream] == nil || s.streams[stream].lost || index+1 < s.streams[stream].first {
		return nil, errors.Join(errForgotten, sdk.ErrEventsPurged)
	}
	from := s.streams[stream]
	return slices.Clone(from.events[min(index+1-from.first, len(from.events)):]), nil
}

// SessionClosed implements [sdk.EventStore].
func (r *replay) SessionClosed(_ context.Context, session string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sessions, session)
	return nil
}
