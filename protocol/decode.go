package protocol

import "math"

// DecodeRequest reads a request, strictly. It keeps nothing of data.
//
// The error is 1000 for a text that is no request, 1003 for another version of the
// protocol and 1004 for too many bytes. Even then the request is not nil: it
// holds what could be read of its id and trace, so that it can be answered.
func DecodeRequest(data []byte, limits Limits) (*Request, error) {
	r := new(Request)
	return r, r.Decode(data, limits)
}

// Decode is [DecodeRequest] into a request that is there already.
func (r *Request) Decode(data []byte, limits Limits) error {
	e := envelope{scanner: scanner{data: data}}
	e.scan(limits)
	e.request(r)
	if e.err != nil {
		return e.err
	}
	return nil
}

// DecodeMatched is Decode for doors that match an answer with its request by
// themselves, as HTTP and the Correlation Data of MQTT 5 do. The id, the type
// and the timestamp may be missing there. A request without an id gets a new
// one, so that a repeat of it is another request.
func (r *Request) DecodeMatched(data []byte, limits Limits) error {
	e := envelope{scanner: scanner{data: data}, matched: true}
	e.scan(limits)
	e.request(r)
	if e.err != nil {
		return e.err
	}
	return nil
}

// DecodeResponse reads a response of anybody, leniently
// (docs/protocol.md#what-is-strict-and-what-is-not): a missing or null error or
// result, the status "error", codes that are numbers and a response_to beside
// the id are understood and noted as old forms. It keeps nothing of data. On
// error the response holds what could be read of its id and trace.
func DecodeResponse(data []byte, limits Limits) (*Response, error) {
	e := envelope{scanner: scanner{data: data}}
	e.scan(limits)
	r := e.response()
	if e.err != nil {
		return r, e.err
	}
	return r, nil
}

// DecodeEvent reads an event. It keeps nothing of data. On error the event
// holds what could be read of its id and trace.
func DecodeEvent(data []byte, limits Limits) (*Event, error) {
	e := envelope{scanner: scanner{data: data}}
	e.scan(limits)
	v := e.event()
	if e.err != nil {
		return v, e.err
	}
	return v, nil
}

// DecodeEnvelope reads an envelope of whatever type it says it is, or looks
// like when it says nothing. Each type is read as by its own function.
func DecodeEnvelope(data []byte, limits Limits) (Envelope, error) {
	e := envelope{scanner: scanner{data: data}}
	e.scan(limits)
	return e.read(e.sniff())
}

// ViewReply reads the reply of an agent. It is [DecodeEnvelope] for callers that are done
// with the message before the data changes, as results and data of events alias it. A
// message without a type and a command is a response: an id alone answers the request.
func ViewReply(data []byte, limits Limits) (Envelope, error) {
	e := envelope{scanner: scanner{data: data}, view: true}
	e.scan(limits)
	f := e.sniff()
	if f == formRequest && string(e.string(fType)) != typeRequest && !e.has(fCommand) {
		f = formResponse
	}
	return e.read(f)
}

// read reads the fields as a form of envelope has them.
func (e *envelope) read(f form) (m Envelope, err error) {
	switch f {
	case formResponse:
		m.Response = e.response()
	case formEvent:
		m.Event = e.event()
	default:
		m.Request = new(Request)
		e.request(m.Request)
	}
	if e.err != nil {
		return m, e.err
	}
	return m, nil
}

// CheckJSON reports whether data is exactly one JSON value within the limits,
// in UTF-8 and without duplicate keys. The error is 1000 with details.reason,
// details.offset and, within a value, its path as details.param_name; or 1004
// for too many bytes.
func CheckJSON(data []byte, limits Limits) error {
	limits = limits.withDefaults()
	if len(data) > limits.MaxBytes {
		return tooLarge(len(data), limits.MaxBytes)
	}
	s := scanner{data: data, room: limits.MaxDepth, depth: limits.MaxDepth}
	if _, ok := s.document(noScope); !ok {
		return s.fault.error()
	}
	return nil
}

// headBytes is the part of a message that is too large that is searched for its id.
const headBytes = 4 << 10

func (l Limits) withDefaults() Limits {
	if l.MaxBytes <= 0 {
		l.MaxBytes = DefaultMaxBytes
	}
	if l.MaxDepth <= 0 {
		l.MaxDepth = DefaultMaxDepth
	}
	l.MaxBytes = min(l.MaxBytes, math.MaxInt32)
	return l
}

func tooLarge(size, limit int) *Error {
	return Errorf(PayloadTooLarge, "the message has %d bytes, %d are allowed", size, limit).
		With("size", size).With("limit", limit)
}

// An envelope is a scanned message on its way to becoming a request, a
// response or an event. It keeps the first thing that is wrong with it.
type envelope struct {
	scanner
	err     *Error
	old     []string // old forms met
	view    bool     // bodies of replies need not be copied
	matched bool     // the door matches answers with requests, see DecodeMatched
}

// scan finds the fields. When it fails, the fields found so far stay.
func (e *envelope) scan(limits Limits) {
	limits = limits.withDefaults()
	e.room, e.depth = limits.MaxDepth, limits.MaxDepth
	if size := len(e.data); size > limits.MaxBytes {
		e.err = tooLarge(size, limits.MaxBytes)
		e.data = e.data[:min(headBytes, limits.MaxBytes)]
		e.document(envelopeScope)
		return
	}
	switch v, ok := e.document(envelopeScope); {
	case !ok:
		e.err = e.fault.error()
	case v.kind != kindObject:
		e.fault = fault{reason: "must be an object, is " + v.kind.String()}
		e.err = e.fault.error()
	}
}

// A form is a type of envelope.
type form uint8

const (
	formRequest form = iota
	formResponse
	formEvent
)

// sniff tells by its type, or by what it has, which form the envelope is of.
func (e *envelope) sniff() form {
	switch string(e.string(fType)) {
	case typeRequest:
		return formRequest
	case typeResponse:
		return formResponse
	case typeEvent:
		return formEvent
	}
	switch {
	case e.has(fCommand):
		return formRequest
	case e.has(fEvent):
		return formEvent
	case e.has(fStatus), e.has(fResult), e.has(fError):
		return formResponse
	}
	return formRequest
}

// fail notes that a field is wrong, unless something is already.
func (e *envelope) fail(f field, reason string) {
	if e.err == nil {
		e.err = malformed(f.path(), reason, int(e.fields[f].start))
	}
}

// deprecate notes an old form.
func (e *envelope) deprecate(sentence string) { e.old = append(e.old, sentence) }

// has reports whether the field is there and not null. Null means left out.
func (e *envelope) has(f field) bool { return e.fields[f].kind > kindNull }

// is reports whether the field is there with the kind; it is wrong with any
// other.
func (e *envelope) is(f field, want kind) bool {
	v := e.fields[f]
	switch {
	case v.kind == want:
		return true
	case v.kind == kindAbsent:
		e.fail(f, "is missing")
	default:
		e.fail(f, "must be "+want.String()+", is "+v.kind.String())
	}
	return false
}

// string is the text of a field, empty if it is no string.
func (e *envelope) string(f field) []byte {
	if v := e.fields[f]; v.kind == kindString {
		return e.bytes(v)
	}
	return nil
}
