package protocol

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"time"
)

// A SouthboundPeer is one side of a southbound message.
type SouthboundPeer struct {
	Component string `json:"component"` // kind: Skills, mcpAgent
	ID        string `json:"id"`
}

// A SouthboundRequest asks for an operation, in the dialect of the LLM protocol
// (docs/protocol.md#the-southbound-dialect).
type SouthboundRequest struct {
	Version     string
	CommandID   string    // chosen by the sender, 1 to 64 characters
	Timestamp   time.Time // zero from a device without a clock
	Source      SouthboundPeer
	Destination SouthboundPeer
	Operation   string
	Payload     []byte // raw JSON object, never empty after decoding
	Priority    Priority
	Timeout     time.Duration // of all attempts together; seconds on the wire
	RetryCount  int           // attempts beside the first
	TraceID     string        // metadata.trace_id, "" for none
}

// A SouthboundResponse answers the request with the same command id. It is a
// success exactly when Err is nil.
type SouthboundResponse struct {
	CommandID   string
	Timestamp   time.Time
	Source      SouthboundPeer
	Destination SouthboundPeer
	Payload     []byte // raw JSON; empty on failure
	Err         *Error // with a code of the bridge; on the wire it is southbound
	TraceID     string
	Attempts    int
	Warnings    []string
}

// Limits of southbound messages.
const (
	DefaultRetries = 3
	MaxRetries     = 10
)

// IsSouthbound reports whether a message is in the southbound dialect, or
// tries to be: it is a JSON object with protocol_version and operation.
func IsSouthbound(data []byte) bool {
	if !bytes.Contains(data, southboundMark) { // nearly always, and then this is all it costs
		return false
	}
	var told struct {
		Version   json.RawMessage `json:"protocol_version"`
		Operation json.RawMessage `json:"operation"`
		Own       json.RawMessage `json:"version"`
	}
	return json.Unmarshal(data, &told) == nil && told.Version != nil && (told.Operation != nil || told.Own == nil)
}

// southboundMark is the end of "protocol_version". It begins with a byte that is
// rare in JSON, so that looking for it takes next to no time.
var southboundMark = []byte(`_version"`)

// DecodeSouthbound reads a southbound request, strictly. Fields that it does
// not know are ignored. The error is 1000 for a text that is no request, 1003 for
// another version and 1004 for too many bytes. Even then the request is not
// nil: it holds what could be read, so that it can be answered.
func DecodeSouthbound(data []byte, limits Limits) (*SouthboundRequest, error) {
	d := southbound{into: &SouthboundRequest{
		Payload: []byte("{}"), Timeout: DefaultTimeout, RetryCount: DefaultRetries,
	}}
	if err := CheckJSON(data, limits); err != nil {
		return d.into, err
	}
	if json.Unmarshal(data, &d.fields) != nil || d.fields == nil {
		return d.into, Errorf(MalformedEnvelope, "the message must be an object").With("reason", "must be an object")
	}
	d.read()
	if d.err != nil {
		return d.into, d.err
	}
	return d.into, nil
}

// A southbound is a message that is being read. It keeps the first fault.
type southbound struct {
	into   *SouthboundRequest
	fields map[string]json.RawMessage
	within string // path of the fields
	err    *Error
}

func (d *southbound) read() {
	r := d.into
	r.CommandID = d.text("command_id", MaxIDLength, true)
	r.Source, r.Destination = d.side("source"), d.side("destination")
	r.Version = d.text("protocol_version", 16, true)
	if patch, ok := strings.CutPrefix(r.Version, "0.6."); d.err == nil && (!ok || !isPatch([]byte(patch))) {
		d.err = Errorf(UnsupportedVersion, "version %q is not supported, send %s", r.Version, Version).
			With("param_name", "protocol_version").With("supported", SupportedVersions())
	}
	r.Operation = d.text("operation", MaxCommandLength, true)
	d.timestamp()
	if raw, ok := d.object("payload"); ok {
		r.Payload = raw
	}
	if raw, ok := d.object("metadata"); ok {
		inner := southbound{into: r, err: d.err, within: "metadata."}
		_ = json.Unmarshal(raw, &inner.fields) // an object, as was checked
		inner.metadata()
		d.err = inner.err
	}
}

func (d *southbound) metadata() {
	r := d.into
	r.TraceID = d.text("trace_id", MaxTraceLength, false)
	if text := d.text("priority", 16, false); text != "" {
		var ok bool
		if r.Priority, ok = ParsePriority(text); !ok {
			d.fail("priority", "must be low, medium or high")
		}
	}
	if seconds, ok := d.number("timeout"); ok {
		if seconds <= 0 || seconds > MaxTimeout.Seconds() {
			d.fail("timeout", "must be more than 0 and at most 600 seconds")
		} else {
			r.Timeout = max(time.Duration(seconds*float64(time.Second)), time.Millisecond)
		}
	}
	if count, ok := d.number("retry_count"); ok {
		if count != math.Trunc(count) || count < 0 || count > MaxRetries {
			d.fail("retry_count", "must be a whole number from 0 to 10")
		} else {
			r.RetryCount = int(count)
		}
	}
}

func (d *southbound) fail(field, reason string) {
	if d.err == nil {
		field = d.within + field
		d.err = Errorf(MalformedEnvelope, "%s %s", field, reason).With("param_name", field).With("reason", reason)
	}
}

// raw is a field's value, false if it is missing or null.
func (d *southbound) raw(name string) (json.RawMessage, bool) {
	raw, ok := d.fields[name]
	return raw, ok && string(raw) != "null"
}

func (d *southbound) text(name string, most int, needed bool) (text string) {
	raw, ok := d.raw(name)
	switch {
	case !ok && needed:
		d.fail(name, "is missing")
	case !ok:
	case json.Unmarshal(raw, &text) != nil:
		d.fail(name, "must be a string")
	case !printable([]byte(text)):
		d.fail(name, "may not contain control characters")
		return ""
	case needed && text == "" || characters([]byte(text)) > most:
		d.fail(name, lengthReason(1, most, characters([]byte(text))))
		return string(short([]byte(text)))
	}
	return text
}

func (d *southbound) number(name string) (n float64, ok bool) {
	raw, ok := d.raw(name)
	if !ok {
		return 0, false
	}
	if json.Unmarshal(raw, &n) != nil {
		d.fail(name, "must be a number")
		return 0, false
	}
	return n, true
}

func (d *southbound) object(name string) (json.RawMessage, bool) {
	raw, ok := d.raw(name)
	if ok && raw[0] != '{' {
		d.fail(name, "must be an object")
		return nil, false
	}
	return raw, ok
}

func (d *southbound) side(name string) (p SouthboundPeer) {
	raw, ok := d.object(name)
	if !ok {
		return p
	}
	inner := southbound{}
	_ = json.Unmarshal(raw, &inner.fields) // an object, as was checked
	p = SouthboundPeer{Component: inner.text("component", MaxSenderLength, false), ID: inner.text("id", MaxSenderLength, false)}
	if inner.err != nil {
		d.fail(name, "must have component and id, strings of at most 64 characters")
	}
	return p
}

func (d *southbound) timestamp() {
	text := d.text("timestamp", 64, false)
	if text == "" {
		return
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.UnixMilli() < 0 || at.UnixMilli() > maxTimestamp {
		d.fail("timestamp", "must be a time as 2026-01-23T12:00:00Z")
		return
	}
	d.into.Timestamp = at
}

// Answer begins the response to a request, from the peer that was asked, at a time.
func (r *SouthboundRequest) Answer(from SouthboundPeer, at time.Time) *SouthboundResponse {
	return &SouthboundResponse{CommandID: r.CommandID, Timestamp: at, Source: from, Destination: r.Source, TraceID: r.TraceID}
}

// Append appends the response as JSON to dst, with all fields.
func (r *SouthboundResponse) Append(dst []byte) []byte {
	dst = append(dst, `{"protocol_version":"`+Version+`","command_id":`...)
	dst = AppendString(dst, r.CommandID)
	dst = append(dst, `,"timestamp":"`...)
	dst = r.Timestamp.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z07:00")
	dst = append(dst, `","source":`...)
	dst = r.Source.append(dst)
	dst = append(dst, `,"destination":`...)
	dst = r.Destination.append(dst)
	dst = append(dst, `,"status":"`...)
	if r.Err == nil {
		dst = append(dst, StatusSuccess...)
	} else {
		dst = append(dst, StatusFailed...)
	}
	dst = append(dst, `","payload":`...)
	dst = appendRaw(dst, r.Payload)
	dst = append(dst, `,"error":`...)
	if r.Err == nil {
		dst = append(dst, "null"...)
	} else {
		told := *r.Err
		told.Code = Code(SouthboundCodeOf(r.Err))
		dst = told.Append(dst)
	}
	m := Metadata{TraceID: r.TraceID, Warnings: r.Warnings}
	dst = append(dst, `,"metadata":`...)
	dst = m.appendReply(dst, true)
	dst = append(dst[:len(dst)-1], `,"attempts":`...)
	dst = appendDetail(dst, r.Attempts)
	return append(dst, '}', '}')
}

func (p SouthboundPeer) append(dst []byte) []byte {
	dst = append(dst, `{"component":`...)
	dst = AppendString(dst, p.Component)
	dst = append(dst, `,"id":`...)
	dst = AppendString(dst, p.ID)
	return append(dst, '}')
}
