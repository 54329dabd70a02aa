package protocol

import (
	"bytes"
	"encoding/json"
	"time"
)

// response reads the fields as a response, leniently.
func (e *envelope) response() *Response {
	r := &Response{}
	r.Version = e.replyVersion()
	e.replyType(typeResponse)

	failed := e.failed()
	id := e.answered(failed)
	sender, trace := e.replyMetadata(&r.Metadata)
	t := texts([...][]byte{id, sender, trace, nil})
	r.ID, r.Metadata.SenderID, r.Metadata.TraceID = t[0], t[1], t[2]

	r.Timestamp = e.replyTimestamp()
	r.Result = e.body(fResult)
	if failed {
		r.Err = e.error()
	}
	r.Deprecations = e.old
	return r
}

// event reads the fields as an event. Only the id and the name have to be there.
func (e *envelope) event() *Event {
	v := &Event{}
	v.Version = e.replyVersion()
	e.replyType(typeEvent)

	id, name := e.id(fID), e.name(fEvent)
	sender, trace := e.replyMetadata(&v.Metadata)
	t := texts([...][]byte{id, name, sender, trace})
	v.ID, v.Name, v.Metadata.SenderID, v.Metadata.TraceID = t[0], t[1], t[2], t[3]

	v.Timestamp = e.replyTimestamp()
	if e.has(fSeq) {
		seq, _ := e.integer(fSeq, 0, 1<<63-1)
		v.Seq = uint64(seq)
	}
	v.Data = e.body(fData)
	return v
}

// replyVersion reads the version, which others may leave out.
func (e *envelope) replyVersion() string {
	if e.fields[fVersion].kind != kindString {
		e.deprecate("an envelope without version is deprecated, send " + Version)
		return ""
	}
	version, _ := e.version()
	return version
}

// replyType checks the type, which others may leave out.
func (e *envelope) replyType(want string) {
	if e.has(fType) {
		e.envelopeType(want, true)
	}
}

// replyTimestamp reads the timestamp, 0 for one that makes no sense.
func (e *envelope) replyTimestamp() int64 {
	if at, ok := e.whole(fTimestamp); ok && at >= 0 && at <= maxTimestamp {
		return at
	}
	return 0
}

// answered is the id of the request that a response answers. A failure may have any, even
// none: the bridge answers a request without a readable id so, and Correlation Data tells
// which it was.
func (e *envelope) answered(failed bool) []byte {
	f := fID
	if e.has(fResponseTo) {
		e.deprecate("response_to is deprecated, send the request's id as id")
		f = fResponseTo
	}
	if v := &e.fields[f]; v.kind == kindNumber {
		e.deprecate("an id that is a number is deprecated, send the request's id")
		v.kind = kindString // of its digits
	}
	if failed {
		return short(e.string(f))
	}
	return e.id(f)
}

// replyMetadata takes what makes sense in the metadata; its texts are still
// to be copied.
func (e *envelope) replyMetadata(m *Metadata) (sender, trace []byte) {
	if s := e.string(fSender); fits(s, 1, MaxSenderLength) {
		sender = s
	}
	if s := e.string(fTrace); fits(s, 1, MaxTraceLength) {
		trace = s
	}
	m.Priority, _ = ParsePriority(string(e.string(fPriority)))
	if ms, ok := e.whole(fTimeout); ok && ms > 0 && ms <= MaxTimeout.Milliseconds() {
		m.Timeout = time.Duration(ms) * time.Millisecond
	}
	if revision, ok := e.whole(fRevision); ok && revision > 0 {
		m.Revision = uint64(revision)
	}
	if e.fields[fWarnings].kind == kindArray && e.fields[fWarnings].len() > len("[]") {
		// A warning that is no string is dropped with the rest: nobody acts on them.
		if json.Unmarshal(e.raw(fWarnings), &m.Warnings) != nil {
			m.Warnings = nil
		}
	}
	return sender, trace
}

// body copies a raw value out of the data, {} when it is left out.
func (e *envelope) body(f field) []byte {
	if !e.has(f) {
		return []byte("{}")
	}
	if e.view {
		return e.raw(f)
	}
	return bytes.Clone(e.raw(f))
}

// failed reports whether the response says that the command failed. Without a
// status the error tells.
func (e *envelope) failed() bool {
	if !e.has(fStatus) {
		e.deprecate("a response without status is deprecated")
		return e.has(fError)
	}
	switch string(e.string(fStatus)) {
	case StatusSuccess:
		return false
	case StatusFailed:
		return true
	case statusError:
		e.deprecate(`status "error" is deprecated, send "failed"`)
		return true
	}
	if e.is(fStatus, kindString) {
		e.fail(fStatus, "must be success or failed, is "+e.quoted(fStatus))
	}
	return true
}

// error reads the error of a failed response. One that says nothing is 5000.
func (e *envelope) error() *Error {
	switch e.fields[fError].kind {
	case kindObject:
	case kindString:
		return &Error{Code: Internal, Message: string(e.string(fError))}
	default:
		return &Error{Code: Internal, Message: "failed without saying why"}
	}
	failure := &Error{Code: e.errorCode(), Message: string(e.string(fMessage))}
	if failure.Message == "" {
		failure.Message = failure.Code.String()
	}
	switch e.fields[fDetails].kind {
	case kindObject:
		if details, ok := decodeAny(e.raw(fDetails)).(map[string]any); ok && len(details) > 0 {
			failure.Details = details
		}
	case kindAbsent, kindNull:
	default:
		failure.With("details", decodeAny(e.raw(fDetails)))
	}
	if failure.Code == "" {
		failure.Code = Internal
		failure.With("code", decodeAny(e.raw(fCode)))
	}
	return failure
}

// errorCode reads a code of four digits, "" for anything else.
func (e *envelope) errorCode() Code {
	code := e.string(fCode)
	if e.fields[fCode].kind == kindNumber {
		e.deprecate("error.code as a number is deprecated, send a string of four digits")
		code = e.raw(fCode)
	}
	if len(code) != 4 {
		return ""
	}
	for _, c := range code {
		if !isDigit(c) {
			return ""
		}
	}
	return Code(code)
}

// decodeAny reads a value that was scanned. Whole numbers become int64, others
// float64.
func decodeAny(raw []byte) any {
	var value any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&value) != nil {
		return nil
	}
	return plainNumbers(value)
}

func plainNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String() // too large for any number
	case map[string]any:
		for key, member := range v {
			v[key] = plainNumbers(member)
		}
	case []any:
		for i, element := range v {
			v[i] = plainNumbers(element)
		}
	}
	return value
}
