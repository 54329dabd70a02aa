package loop

import "github.com/aibridge/aibridge/llm/chat"

// A stream joins the events of several answers into those of one: segments are numbered
// through, and only the last answer emits a finish.
type stream struct {
	emit   func(chat.Event) error
	begins int // index of the first segment of this answer
	next   int
}

// round is the receiver of the next answer's events, nil without a receiver of the
// stream.
func (s *stream) round() func(chat.Event) error {
	if s.emit == nil {
		return nil
	}
	s.begins = s.next
	return func(e chat.Event) error {
		if e.Type == chat.Finished {
			return nil
		}
		e.Index += s.begins
		s.next = max(s.next, e.Index+1)
		return s.emit(e)
	}
}

func (s *stream) finish(f chat.Finish) error {
	if s.emit == nil {
		return nil
	}
	return s.emit(chat.Event{Type: chat.Finished, Index: s.next, Finish: &f})
}
