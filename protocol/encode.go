package protocol

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
	"unsafe"
)

// Append appends the request as JSON to dst. Params and Extension are copied
// as they are: they must be JSON objects.
func (r *Request) Append(dst []byte) []byte {
	dst = slices.Grow(dst, usualFrame+len(r.ID)+len(r.Command)+len(r.Params)+r.Metadata.size()+len(r.Extension))
	dst = appendHead(dst, r.Version, r.ID, r.Timestamp, typeRequest)
	dst = append(dst, `,"command":`...)
	dst = AppendString(dst, r.Command)
	dst = append(dst, `,"params":`...)
	dst = appendRaw(dst, r.Params)
	dst = append(dst, `,"metadata":`...)
	dst = r.Metadata.appendRequest(dst)
	if len(r.Extension) > 0 {
		dst = append(dst, `,"extension":`...)
		dst = append(dst, r.Extension...)
	}
	return append(dst, '}')
}

// Append appends the response as JSON to dst, with all fields: on success
// error is null, on failure result is {} unless a part was done. Result is
// copied as it is: it must be JSON.
func (r *Response) Append(dst []byte) []byte {
	dst = slices.Grow(dst, usualFrame+len(r.ID)+len(r.Result)+r.Metadata.size())
	dst = appendHead(dst, r.Version, r.ID, r.Timestamp, typeResponse)
	dst = append(dst, `,"status":"`...)
	dst = append(dst, r.Status()...)
	dst = append(dst, `","result":`...)
	dst = appendRaw(dst, r.Result)
	dst = append(dst, `,"error":`...)
	if r.Err == nil {
		dst = append(dst, "null"...)
	} else {
		dst = r.Err.Append(dst)
	}
	dst = append(dst, `,"metadata":`...)
	dst = r.Metadata.appendReply(dst, true)
	return append(dst, '}')
}

// Append appends the event as JSON to dst. Data is copied as it is: it must
// be JSON.
func (e *Event) Append(dst []byte) []byte {
	dst = slices.Grow(dst, usualFrame+len(e.ID)+len(e.Name)+len(e.Data)+e.Metadata.size())
	dst = appendHead(dst, e.Version, e.ID, e.Timestamp, typeEvent)
	dst = append(dst, `,"event":`...)
	dst = AppendString(dst, e.Name)
	dst = append(dst, `,"seq":`...)
	dst = strconv.AppendUint(dst, e.Seq, 10)
	dst = append(dst, `,"data":`...)
	dst = appendRaw(dst, e.Data)
	dst = append(dst, `,"metadata":`...)
	dst = e.Metadata.appendReply(dst, false)
	return append(dst, '}')
}

// MarshalJSON implements [json.Marshaler].
func (r *Request) MarshalJSON() ([]byte, error) { return r.Append(nil), nil }

// MarshalJSON implements [json.Marshaler].
func (r *Response) MarshalJSON() ([]byte, error) { return r.Append(nil), nil }

// MarshalJSON implements [json.Marshaler].
func (e *Event) MarshalJSON() ([]byte, error) { return e.Append(nil), nil }

// usualFrame is room for the rest of an envelope beside its texts: names of fields,
// numbers, constant members. With it, most are written without growing the buffer on the
// way.
const usualFrame = 224

// size is the length of the texts that most envelopes have in their metadata.
func (m *Metadata) size() int { return len(m.SenderID) + len(m.TraceID) }

func appendHead(dst []byte, version, id string, timestamp int64, kind string) []byte {
	if version == "" {
		version = Version
	}
	dst = append(dst, `{"version":`...)
	dst = AppendString(dst, version)
	dst = append(dst, `,"id":`...)
	dst = AppendString(dst, id)
	dst = append(dst, `,"timestamp":`...)
	dst = strconv.AppendInt(dst, timestamp, 10)
	dst = append(dst, `,"type":"`...)
	dst = append(dst, kind...)
	return append(dst, '"')
}

func appendRaw(dst, raw []byte) []byte {
	if len(raw) == 0 {
		return append(dst, "{}"...)
	}
	return append(dst, raw...)
}

func (m *Metadata) appendRequest(dst []byte) []byte {
	dst = m.appendNames(append(dst, '{'))
	dst = append(dst, `"priority":"`...)
	dst = append(dst, m.Priority.String()...)
	dst = append(dst, '"')
	if m.Timeout > 0 {
		dst = append(dst, `,"timeout":`...)
		dst = strconv.AppendInt(dst, milliseconds(m.Timeout), 10)
	}
	if m.Events {
		dst = append(dst, `,"events":true`...)
	}
	if m.MinRevision > 0 {
		dst = append(dst, `,"min_revision":`...)
		dst = strconv.AppendUint(dst, m.MinRevision, 10)
	}
	if m.Caller != "" {
		dst = append(dst, `,"caller":`...)
		dst = AppendString(dst, m.Caller)
	}
	return append(dst, '}')
}

func (m *Metadata) appendReply(dst []byte, warnings bool) []byte {
	dst = m.appendNames(append(dst, '{'))
	if m.Revision > 0 {
		dst = append(dst, `"revision":`...)
		dst = append(strconv.AppendUint(dst, m.Revision, 10), ',')
	}
	if warnings || len(m.Warnings) > 0 {
		dst = append(dst, `"warnings":[`...)
		for i, w := range m.Warnings {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendString(dst, w)
		}
		dst = append(dst, ']', '}')
		return dst
	}
	if dst[len(dst)-1] == ',' {
		dst = dst[:len(dst)-1]
	}
	return append(dst, '}')
}

// appendNames appends the sender and the trace, each with a comma behind it.
func (m *Metadata) appendNames(dst []byte) []byte {
	if m.SenderID != "" {
		dst = append(dst, `"sender_id":`...)
		dst = append(AppendString(dst, m.SenderID), ',')
	}
	if m.TraceID != "" {
		dst = append(dst, `"trace_id":`...)
		dst = append(AppendString(dst, m.TraceID), ',')
	}
	return dst
}

// milliseconds rounds up, so that a short time left never becomes none.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// Append appends the error as JSON to dst: code, message and details, which
// is an object always, with its keys sorted.
func (e *Error) Append(dst []byte) []byte {
	dst = append(dst, `{"code":`...)
	dst = AppendString(dst, string(e.Code))
	dst = append(dst, `,"message":`...)
	dst = AppendString(dst, e.Message)
	dst = append(dst, `,"details":{`...)
	var few [8]string
	keys := few[:0]
	for key := range e.Details {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendString(dst, key), ':')
		dst = appendDetail(dst, e.Details[key])
	}
	return append(dst, '}', '}')
}

// MarshalJSON implements [json.Marshaler].
func (e *Error) MarshalJSON() ([]byte, error) { return e.Append(nil), nil }

// appendDetail appends a value that anybody may have put into an error. What
// JSON cannot say is left out as null rather than losing the whole answer.
func appendDetail(dst []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(dst, "null"...)
	case string:
		return AppendString(dst, v)
	case bool:
		return strconv.AppendBool(dst, v)
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return append(dst, "null"...)
	}
	return append(dst, bytes.TrimSpace(out.Bytes())...)
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string to dst. Only what must be escaped
// is; bytes that are not UTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	text := unsafe.Slice(unsafe.StringData(s), len(s)) // for run, which only reads it
	start := 0
	for i := 0; ; {
		if i += run(text[i:], tops); i == len(s) {
			break
		}
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscaped(dst, c)
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendEscaped(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	}
	if c >= utf8.RuneSelf {
		return append(dst, `\ufffd`...)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}
