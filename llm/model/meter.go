package model

import (
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/llm/chat"
)

// The bound of all answers that are being read, in bytes from providers. The process
// holds a small multiple of it in memory.
const (
	answerBytes = 128 << 20
	meterStep   = 64 << 10 // taken at a time
)

func newAnswerSpace(bytes int64) *fair.Semaphore {
	return fair.New(fair.Options{What: "bytes of language models' answers under way", Capacity: bytes})
}

// An answerMeter counts the bytes of one answer. It is a [wire.Meter].
type answerMeter struct {
	space *fair.Semaphore
	party fair.Party
	held  int64
	taken int64 // bytes taken from space, a multiple of meterStep
}

// Hold implements [wire.Meter]. It fails with 4008.
func (m *answerMeter) Hold(bytes int) error {
	m.held += int64(bytes)
	if m.held <= m.taken {
		return nil
	}
	more := (m.held - m.taken + meterStep - 1) / meterStep * meterStep
	if err := m.space.TryAcquire(m.party, more); err != nil {
		return err
	}
	m.taken += more
	return nil
}

// close releases all bytes.
func (m *answerMeter) close() {
	if m.taken > 0 {
		m.space.Release(m.party, m.taken)
	}
	m.held, m.taken = 0, 0
}

// sizeOf is the length that an event adds to an answer, in bytes.
func sizeOf(e *chat.Event) int {
	n := len(e.Text)
	if e.Opaque != nil {
		n += len(e.Opaque.Data)
	}
	if e.Segment != nil {
		n += len(e.Segment.Text) + len(e.Segment.Data)
		if e.Segment.Opaque != nil {
			n += len(e.Segment.Opaque.Data)
		}
	}
	return n
}
