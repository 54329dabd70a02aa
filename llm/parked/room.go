package parked

import (
	"sync"

	"github.com/aibridge/aibridge/protocol"
)

// reserve reserves the additional bytes of a task's next record, until release. The
// caller releases them once the record is stored, or has failed to be. The error is
// 3004 if there is no room.
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

// spare is the room, in bytes, that the state of a task must leave before a call of a
// tool, so that the outcome of the call can be stored. It is more than the longest text
// of a result takes.
const spare = 512 << 10

// spare is the constant spare, or an eighth of the limit of a running task if that is
// less.
func (s *Service) spare() int { return min(spare, keptRunning*s.opts.MaxKept/8) }

// fits returns 3004 if a state and more bytes exceed the limit of a running task. The
// limit is a multiple of that of a waiting one, since a running task has been admitted
// and lasts for a moment.
func (s *Service) fits(kept []byte, more int) error {
	if limit := keptRunning * s.opts.MaxKept; len(kept)+more > limit {
		return protocol.Errorf(protocol.LimitReached, "the conversation has more than %d bytes, which is too much to be kept", limit).
			With("limit", limit).With("reason", "parked_bytes")
	}
	return nil
}

// keptRunning is the limit of a running task, and of a result, as a multiple of the
// limit of a waiting task. With its encoding it stays below the largest record of the
// store.
const keptRunning = 4
