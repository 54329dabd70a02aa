package parked

import (
	"sync"

	"github.com/aibridge/aibridge/protocol"
)

// reserve takes room for what a task is to keep instead of what it keeps, until
// release, which comes once that is stored, or is not. 3004 says that there is
// none.
func (s *Service) reserve(old, next *Record) (release func(), err error) {
	before := 0
	if old.State == Running {
		before = old.bytes()
	}
	party, more := next.Grant.Party(), next.bytes()
	if more > s.opts.MaxKept {
		return nil, protocol.Errorf(protocol.LimitReached, "the conversation has more than %d bytes, which is too much to be kept for an approval", s.opts.MaxKept).
			With("limit", s.opts.MaxKept).With("reason", "parked_bytes")
	}
	t := s.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.own[party].bytes-before+more > s.opts.MaxOwnBytes:
		return nil, protocol.Errorf(protocol.LimitReached, "your conversations that wait for approvals have %d bytes together, which is the limit", s.opts.MaxOwnBytes).
			With("limit", s.opts.MaxOwnBytes).With("reason", "parked_bytes_of_principal")
	case t.spaces[party.Space].bytes-before+more > s.opts.MaxOpenBytes:
		return nil, protocol.Errorf(protocol.LimitReached, "the conversations of the space that wait for approvals are too long together").
			With("limit", s.opts.MaxOpenBytes).With("reason", "parked_bytes_of_space")
	}
	t.add(party, 1, more)
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.add(party, -1, -more)
	}), nil
}

// spare is the room that must be left of what a task may keep before a call of a tool is
// made, so that its outcome can be kept, in bytes. It is more than the longest text
// of a result takes.
const spare = 512 << 10

// spare is the room that is to be left before a call of a tool, in bytes.
func (s *Service) spare() int { return min(spare, keptRunning*s.opts.MaxKept/8) }

// fits says why a task cannot keep that much. Other than what waits, one that
// goes on may keep a multiple: it has been let in, and goes on for a moment.
func (s *Service) fits(kept []byte, more int) error {
	if limit := keptRunning * s.opts.MaxKept; len(kept)+more > limit {
		return protocol.Errorf(protocol.LimitReached, "the conversation has more than %d bytes, which is too much to be kept", limit).
			With("limit", limit).With("reason", "parked_bytes")
	}
	return nil
}

// keptRunning is the multiple of the bytes of a waiting task that one which goes on
// may keep, and that a result may have. With its encoding it stays below the largest
// record of the store.
const keptRunning = 4
