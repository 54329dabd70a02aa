package protocol

import "time"

// Limits of the envelope (docs/protocol.md#envelopes). Lengths count
// characters.
const (
	MaxIDLength      = 64  // of an envelope's id
	MaxCommandLength = 128 // of a command's or an event's name
	MaxSenderLength  = 64  // of metadata.sender_id
	MaxTraceLength   = 128 // of metadata.trace_id

	DefaultTimeout = 30 * time.Second  // of a request that names none
	MaxTimeout     = 600 * time.Second // that a request may name
)

// A Request asks for a command to be run.
type Request struct {
	Version   string
	ID        string // chosen by the sender, 1 to 64 characters
	Timestamp int64  // Unix milliseconds; 0 from a device without a clock
	Command   string
	Params    []byte // raw JSON object, never empty after decoding
	Metadata  Metadata
	Extension []byte // raw JSON object with vendor data, nil without one

	// Deprecations are the old forms met while decoding, one sentence each;
	// they belong into the answer's warnings (docs/protocol.md#old-forms).
	Deprecations []string
}

// A Response answers the request with the same id. It is a success exactly
// when Err is nil.
type Response struct {
	Version   string
	ID        string // the request's
	Timestamp int64  // Unix milliseconds
	Result    []byte // raw JSON; on failure empty unless a part was done
	Err       *Error
	Metadata  Metadata

	// Deprecations are the old forms met while decoding
	// (docs/protocol.md#old-forms).
	Deprecations []string
}

// An Event reports progress or carries a piece of a stream. Its id is that of
// the request it belongs to.
type Event struct {
	Version   string
	ID        string
	Timestamp int64  // Unix milliseconds
	Name      string // "event" on the wire: task.progress
	Seq       uint64 // counts the events of one id
	Data      []byte // raw JSON
	Metadata  Metadata
	// Traceparent is the W3C trace context of the work that the event is about, "" if it
	// is not traced: a user property over MQTT, and in no envelope.
	Traceparent string
}

// Metadata travels with every envelope.
type Metadata struct {
	SenderID string // who claims to have sent it, 1 to 64 characters, "" for none
	TraceID  string
	Priority Priority
	Timeout  time.Duration // of a request, from its arrival; milliseconds on the wire
	Events   bool          // the sender of a request wants events on the response topic
	Warnings []string      // of a response: values that were coerced, and deprecations
	// MinRevision, of a request, is the revision of the state that the bridge must
	// have seen before it runs the command; 0 for any.
	MinRevision uint64
	// Revision, of a response to a command that writes, is a revision of the state
	// that includes the write. Bridges that share their state with others tell it; 0
	// for none.
	Revision uint64
	// Caller is the mark of the caller, of a request to an agent over a way that has
	// no other place for it. It is written and not read: nobody marks its own
	// requests.
	Caller string
}

// Status is "success" or "failed".
func (r *Response) Status() string {
	if r.Err == nil {
		return StatusSuccess
	}
	return StatusFailed
}

// The statuses of a response.
const (
	StatusSuccess = "success"
	StatusFailed  = "failed"

	statusError = "error" // an old name of failed
)

// The types of envelopes.
const (
	typeRequest  = "request"
	typeResponse = "response"
	typeEvent    = "event"
)

// Limits bound an envelope to decode. Zero fields mean the defaults.
type Limits struct {
	MaxBytes int // of a message, default 1 MiB
	MaxDepth int // of nested objects and arrays, default 64
}

// Default limits of decoding.
const (
	DefaultMaxBytes = 1 << 20
	DefaultMaxDepth = 64
)

// An Envelope is a request, a response or an event. Exactly one field is set.
type Envelope struct {
	Request  *Request
	Response *Response
	Event    *Event
}

// ID is the id of the request that an envelope is, or is about, "" if it could
// not be read.
func (e Envelope) ID() string {
	switch {
	case e.Response != nil:
		return e.Response.ID
	case e.Event != nil:
		return e.Event.ID
	case e.Request != nil:
		return e.Request.ID
	}
	return ""
}

// Answer begins the successful response to a request: its id and trace, the
// old forms it used as warnings, sent by sender at a time.
func (r *Request) Answer(sender string, at time.Time) *Response {
	answer := new(Response)
	r.AnswerIn(answer, sender, at)
	return answer
}

// AnswerIn is [Request.Answer] in an empty response, for callers that have room for one.
func (r *Request) AnswerIn(answer *Response, sender string, at time.Time) {
	answer.Version, answer.ID, answer.Timestamp = Version, r.ID, at.UnixMilli()
	m := &answer.Metadata
	m.SenderID, m.TraceID, m.Warnings = sender, r.Metadata.TraceID, r.Deprecations
}
