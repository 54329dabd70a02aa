package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/aibridge/aibridge/llm/chat"
)

// maxAnswer is the greatest size of the text, the calls and the opaque data of one
// answer together, in bytes. Each segment counts segmentCost more: an answer may have
// many that are empty.
const (
	maxAnswer   = 64 << 20
	segmentCost = 1 << 10
)

// A Stream builds the events of an answer from its pieces. It numbers segments, joins
// adjacent text in one segment, and never emits half a character.
type Stream struct {
	emit func(chat.Event) error
	ids  IDs
	size int
	next int // index of the next segment

	open   chat.Kind // text or reasoning, "" if neither is open
	at     int       // its index
	pieces Joiner
	calls  int
}

// NewStream returns a stream that passes its events to emit.
func NewStream(emit func(chat.Event) error) *Stream { return &Stream{emit: emit} }

// Text adds a piece of text.
func (s *Stream) Text(piece Text) error { return s.say(chat.Text, chat.TextDelta, piece) }

// Reasoning adds a piece of readable reasoning. [Stream.Mark] adds opaque data, by
// which it goes back to its provider.
func (s *Stream) Reasoning(piece Text) error {
	return s.say(chat.Reasoning, chat.ReasoningDelta, piece)
}

func (s *Stream) say(kind chat.Kind, event chat.EventType, piece Text) error {
	if len(piece) == 0 {
		return nil
	}
	if err := s.grow(len(piece)); err != nil {
		return err
	}
	if err := s.begin(kind); err != nil {
		return err
	}
	text := s.pieces.Add(piece)
	if text == "" {
		return nil
	}
	return s.emit(chat.Event{Type: event, Index: s.at, Text: text})
}

func (s *Stream) begin(kind chat.Kind) error {
	if s.open == kind {
		return nil
	}
	if err := s.Break(); err != nil {
		return err
	}
	at, err := s.take()
	if err != nil {
		return err
	}
	s.open, s.at = kind, at
	return nil
}

// take is the index of a new segment.
func (s *Stream) take() (int, error) {
	s.next++
	return s.next - 1, s.grow(segmentCost)
}

func (s *Stream) grow(n int) error {
	if s.size += n; s.size > maxAnswer {
		return chat.Errorf(chat.BadResponse, "the answer is too large")
	}
	return nil
}

func sizeOf(o *chat.Opaque) int {
	if o == nil {
		return 0
	}
	return len(o.Data)
}

// valid is opaque data with bytes that are not UTF-8 replaced: JSON with them would
// break the reader of the answer.
func valid(o *chat.Opaque) *chat.Opaque {
	if o == nil || utf8.Valid(o.Data) {
		return o
	}
	return &chat.Opaque{Origin: o.Origin, Data: bytes.ToValidUTF8(o.Data, []byte("\ufffd"))}
}

// Break ends the open segment. The next piece begins another one.
func (s *Stream) Break() error {
	kind := s.open
	s.open = ""
	rest := s.pieces.End()
	if kind == "" || rest == "" {
		return nil
	}
	return s.emit(chat.Event{Type: deltaOf(kind), Index: s.at, Text: rest})
}

func deltaOf(kind chat.Kind) chat.EventType {
	if kind == chat.Reasoning {
		return chat.ReasoningDelta
	}
	return chat.TextDelta
}

// Mark adds opaque data to the open segment of a kind, or to a new and empty one, and
// ends that segment.
func (s *Stream) Mark(kind chat.Kind, opaque *chat.Opaque) error {
	if err := s.grow(sizeOf(opaque)); err != nil {
		return err
	}
	if err := s.begin(kind); err != nil {
		return err
	}
	at := s.at
	if err := s.Break(); err != nil {
		return err
	}
	return s.emit(chat.Event{Type: deltaOf(kind), Index: at, Opaque: valid(opaque)})
}

// Segment adds a whole segment.
func (s *Stream) Segment(segment chat.Segment) error {
	if err := s.grow(len(segment.Data) + len(segment.Text) + sizeOf(segment.Opaque)); err != nil {
		return err
	}
	if err := s.Break(); err != nil {
		return err
	}
	at, err := s.take()
	if err != nil {
		return err
	}
	segment.Opaque = valid(segment.Opaque)
	return s.emit(chat.Event{Type: chat.SegmentWhole, Index: at, Segment: &segment})
}

// Empty reports whether there is no segment yet.
func (s *Stream) Empty() bool { return s.next == 0 }

// Call begins a tool call. Several may be open at once. A call without a name is an
// error: it could be neither run nor repeated.
func (s *Stream) Call(id, name string) (*Call, error) {
	if name == "" {
		return nil, chat.Errorf(chat.BadResponse, "the provider sent a call without the name of a tool")
	}
	if err := s.Break(); err != nil {
		return nil, err
	}
	at, err := s.take()
	if err != nil {
		return nil, err
	}
	s.calls++
	c := &Call{stream: s, index: at, id: s.ids.Unique(id), name: name}
	return c, s.emit(chat.Event{Type: chat.ToolCallStart, Index: c.index, Call: &chat.ToolCall{ID: c.id, Name: c.name}})
}

// Finish ends the answer. The reason of an answer with calls is [chat.ToolUse], even if
// the service reports the end of a turn.
func (s *Stream) Finish(f chat.Finish) error {
	if err := s.Break(); err != nil {
		return err
	}
	if f.Reason == chat.EndTurn && s.calls > 0 {
		f.Reason = chat.ToolUse
	}
	return s.emit(chat.Event{Type: chat.Finished, Index: s.next, Finish: &f})
}

// A Call is a tool call during its stream.
type Call struct {
	stream   *Stream
	index    int
	id, name string
	pieces   Joiner
	text     strings.Builder
	closed   bool
}

// maxWhole is the greatest size of arguments that are parsed again with every piece, in
// bytes.
const maxWhole = 64 << 10

// Whole reports whether the arguments are a whole object already. Of arguments beyond
// maxWhole it reports false.
func (c *Call) Whole() bool {
	if c.text.Len() > maxWhole {
		return false
	}
	text := strings.TrimSpace(c.text.String())
	return strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}") && json.Valid([]byte(text))
}

// Written are the arguments' bytes so far.
func (c *Call) Written() Text { return append(Text(c.text.String()), c.pieces.rest...) }

// Arguments adds a piece of the arguments' text.
func (c *Call) Arguments(piece Text) error {
	if len(piece) == 0 {
		return nil
	}
	if err := c.stream.grow(len(piece)); err != nil {
		return err
	}
	return c.tell(c.pieces.Add(piece))
}

func (c *Call) tell(text string) error {
	if text == "" {
		return nil
	}
	c.text.WriteString(text)
	return c.stream.emit(chat.Event{Type: chat.ToolCallDelta, Index: c.index, Text: text})
}

// Close ends the call, once.
func (c *Call) Close(opaque *chat.Opaque) error {
	if c.closed {
		return nil
	}
	c.closed = true
	if err := c.tell(c.pieces.End()); err != nil {
		return err
	}
	return c.stream.emit(chat.Event{Type: chat.ToolCallEnd, Index: c.index, Call: NewCall(c.id, c.name, c.text.String()), Opaque: valid(opaque)})
}
