package redact

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/llm/chat"
)

// A stream restores the values in the events of an answer. A piece of text that may be
// the beginning of a placeholder is held until the next event.
type stream struct {
	mask *Mask
	emit func(chat.Event) error
	held map[int]*chat.Event // deltas that wait, by segment
}

// Stream returns the receiver of the answer's events. It restores the values behind
// placeholders and passes the events on to emit.
func (m *Mask) Stream(emit func(chat.Event) error) func(chat.Event) error {
	return (&stream{mask: m, emit: emit, held: make(map[int]*chat.Event)}).event
}

func (s *stream) event(e chat.Event) error {
	switch e.Type {
	case chat.TextDelta, chat.ReasoningDelta, chat.ToolCallDelta:
		return s.delta(e)
	case chat.Finished:
		if err := s.release(func(*chat.Event) bool { return true }); err != nil {
			return err
		}
		if e.Finish != nil {
			finish := *e.Finish
			finish.Detail = s.mask.Restore(finish.Detail)
			e.Finish = &finish
		}
		return s.emit(e)
	}
	if err := s.release(func(held *chat.Event) bool { return held.Index == e.Index || held.Type != chat.ToolCallDelta }); err != nil {
		return err
	}
	e.Call = s.mask.call(e.Call)
	if e.Segment != nil {
		segment := s.mask.Segment(*e.Segment)
		e.Segment = &segment
	}
	return s.emit(e)
}

// delta passes on a piece together with the text held of its segment. An end that may be
// the beginning of a placeholder is held.
func (s *stream) delta(e chat.Event) error {
	if err := s.release(func(held *chat.Event) bool { return held.Index != e.Index && held.Type != chat.ToolCallDelta }); err != nil {
		return err
	}
	if before := s.held[e.Index]; before != nil {
		e.Text = before.Text + e.Text
		delete(s.held, e.Index)
	}
	whole := len(e.Text)
	if e.Opaque == nil { // opaque data ends a segment
		whole = begun(e.Text)
	}
	rest := e.Text[whole:]
	e.Text = s.restore(&e, e.Text[:whole])
	if rest != "" {
		s.held[e.Index] = &chat.Event{Type: e.Type, Index: e.Index, Text: rest}
	}
	if e.Text == "" && e.Opaque == nil {
		return nil
	}
	return s.emit(e)
}

func (s *stream) restore(e *chat.Event, text string) string {
	if e.Type == chat.ToolCallDelta || e.Type == chat.TextDelta && s.mask.JSON {
		return restoreJSON(s.mask, text)
	}
	return s.mask.Restore(text)
}

// release passes on the text held of some segments, in order.
func (s *stream) release(which func(*chat.Event) bool) error {
	if len(s.held) == 0 {
		return nil
	}
	for _, index := range slices.Sorted(maps.Keys(s.held)) {
		e := s.held[index]
		if !which(e) {
			continue
		}
		delete(s.held, index)
		if err := s.emit(*e); err != nil { // the text never became a placeholder
			return err
		}
	}
	return nil
}

var beginning = regexp.MustCompile(`(?i)^\[(?:[a-z][a-z_]{0,15}(?:-(?:[1-9][0-9]{0,4})?)?)?$`)

// begun is the place where the beginning of a placeholder stands at the end of a text,
// the length of the text if there is none.
func begun(text string) int {
	at := strings.LastIndexByte(text, '[')
	if at < 0 || !beginning.MatchString(text[at:]) {
		return len(text)
	}
	return at
}
