package chat

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// An Answer is a whole answer of a model.
type Answer struct {
	Segments []Segment
	Finish   Finish
}

// Text returns all text of the answer, in order.
func (a *Answer) Text() string {
	var text strings.Builder
	for _, s := range a.Segments {
		if s.Type == Text {
			text.WriteString(s.Text)
		}
	}
	return text.String()
}

// Calls are the tool calls of the answer, in order.
func (a *Answer) Calls() []*ToolCall {
	var calls []*ToolCall
	for _, s := range a.Segments {
		if s.Type == Call {
			calls = append(calls, s.ToolCall)
		}
	}
	return calls
}

// Message returns the answer as a message of the next request.
func (a *Answer) Message() Message { return Message{Role: Assistant, Segments: a.Segments} }

// Collect asks for an answer and returns it whole.
func Collect(ctx context.Context, p Provider, r *Request) (*Answer, error) {
	var f Folder
	if err := p.Stream(ctx, r, f.Add); err != nil {
		return nil, err
	}
	return f.Answer()
}

// maxSegments is the greatest number of segments of an answer.
const maxSegments = 4096

// A Folder builds an answer from its events. The zero value is ready to use.
type Folder struct {
	segments []*piece
	finish   *Finish
}

// A piece is a segment during the stream, while its text grows.
type piece struct {
	Segment
	text strings.Builder
}

// Add adds the next event.
func (f *Folder) Add(e Event) error {
	if f.finish != nil {
		return errors.New("an event after the finish")
	}
	if e.Type == Finished {
		if e.Finish == nil {
			return errors.New("a finish without a reason")
		}
		f.finish = e.Finish
		return nil
	}
	s, err := f.at(e.Index)
	if err != nil {
		return err
	}
	switch e.Type {
	case TextDelta:
		s.Type = Text
		s.text.WriteString(e.Text)
	case ReasoningDelta:
		s.Type = Reasoning
		s.text.WriteString(e.Text)
	case ToolCallStart, ToolCallDelta:
		s.Type = Call
	case ToolCallEnd:
		s.Type, s.ToolCall = Call, e.Call
	case SegmentWhole:
		if e.Segment != nil {
			s.Segment = *e.Segment
		}
	default:
		return fmt.Errorf("an unknown event %q", e.Type)
	}
	if e.Opaque != nil {
		s.Opaque = e.Opaque
	}
	return nil
}

func (f *Folder) at(index int) (*piece, error) {
	if index < 0 || index >= maxSegments {
		return nil, fmt.Errorf("segment %d of an answer that may have %d", index, maxSegments)
	}
	for len(f.segments) <= index {
		f.segments = append(f.segments, &piece{})
	}
	return f.segments[index], nil
}

// Answer returns the whole answer, or an [*Error] if it is incomplete.
func (f *Folder) Answer() (*Answer, error) {
	if f.finish == nil {
		return nil, &Error{Kind: CutOff, Message: "the answer ended before it was finished"}
	}
	a := &Answer{Finish: *f.finish}
	for _, s := range f.segments {
		switch {
		case s.Type == "":
		case s.Type == Call && s.ToolCall == nil:
			return nil, &Error{Kind: BadResponse, Message: "a tool call has no end"}
		default:
			s.Text += s.text.String()
			s.text.Reset()
			a.Segments = append(a.Segments, s.Segment)
		}
	}
	return a, nil
}
