package audit

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/aibridge/aibridge/protocol"
)

// MaxParams bounds parameters that are recorded, in bytes. Longer ones are
// left out.
const MaxParams = 2048

// Bounds of what an entry may hold; the rest is cut off.
const (
	maxText    = 256 // bytes of a string
	maxParams  = MaxParams
	maxSealed  = maxParams + 256 // with what sealing adds
	maxDetails = 16
	timeFormat = "2006-01-02T15:04:05.000Z"
)

// A line is an entry about to be written, with parts that would cost memory
// to put into an [Entry] first.
type line struct {
	Entry
	on     [2]string // resource as type and id, instead of Resource
	digest []byte    // instead of Digest
	clock  *clock    // may be nil
}

// append writes the entry as JSON, without its sequence, which follows from
// its place.
func (l *line) append(dst []byte) []byte {
	dst = append(dst, `{"time":"`...)
	dst = append(l.appendTime(dst), '"')
	text := func(name, value string) {
		if value != "" {
			dst = appendMember(dst, name, value)
		}
	}
	flag := func(name string, value bool) {
		if value {
			dst = append(append(append(dst, `,"`...), name...), `":true`...)
		}
	}
	text("event", l.Event)
	text("code", l.Code)
	flag("security", l.Security)
	text("principal", l.Principal)
	text("kind", string(l.Kind))
	text("space_id", string(l.Space))
	text("credential", l.Credential)
	text("method", l.Method)
	text("cert_sn", string(l.CertSerial))
	text("acts_for", l.ActsFor)
	text("action", l.Action)
	text("resource", l.Resource)
	if l.on[0] != "" || l.on[1] != "" {
		dst = appendJoined(append(dst, `,"resource":`...), l.on[0], l.on[1])
	}
	if n := len(l.Params); n > 0 && n <= maxParams {
		dst = append(append(dst, `,"params":`...), l.Params...)
	}
	text("params_digest", l.Digest)
	if len(l.digest) > 0 {
		dst = append(dst, `,"params_digest":"`...)
		dst = hex.AppendEncode(dst, l.digest)
		dst = append(dst, '"')
	}
	if n := len(l.Sealed); n > 0 && n <= maxSealed {
		dst = base64.StdEncoding.AppendEncode(append(dst, `,"params_sealed":"`...), l.Sealed)
		dst = append(dst, '"')
	}
	text("reason", l.Reason)
	text("request_id", l.RequestID)
	text("trace_id", l.TraceID)
	text("door", l.Door)
	if l.Address.IsValid() {
		dst = append(dst, `,"address":"`...)
		dst = append(l.Address.WithZone("").AppendTo(dst), '"')
	}
	flag("async", l.Async)
	flag("late", l.Late)
	return append(l.details(dst), '}')
}

// appendTime writes the time as timeFormat has it. What stands before the
// milliseconds is mostly what it was for the entry before.
func (l *line) appendTime(dst []byte) []byte {
	if l.clock == nil {
		l.clock = new(clock)
	}
	if second := l.Time.Unix(); second != l.clock.second || len(l.clock.text) == 0 {
		l.clock.second = second
		l.clock.text = l.Time.UTC().AppendFormat(l.clock.text[:0], timeFormat[:len(timeFormat)-len("000Z")])
	}
	ms := l.Time.Nanosecond() / int(time.Millisecond)
	return append(append(dst, l.clock.text...), byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// A clock remembers how a second is written.
type clock struct {
	second int64
	text   []byte
}

func (l *line) details(dst []byte) []byte {
	if len(l.Details) == 0 {
		return dst
	}
	names := slices.Sorted(maps.Keys(l.Details))
	dst = append(dst, `,"details":{`...)
	for i, name := range names[:min(len(names), maxDetails)] {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = protocol.AppendString(dst, cut(name))
		dst = append(dst, ':')
		dst = protocol.AppendString(dst, cut(l.Details[name]))
	}
	return append(dst, '}')
}

func appendMember(dst []byte, name, value string) []byte {
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	return protocol.AppendString(dst, cut(value))
}

// appendJoined writes a/b as one JSON string.
func appendJoined(dst []byte, a, b string) []byte {
	dst = protocol.AppendString(dst, cut(a))
	dst[len(dst)-1] = '/'
	at := len(dst)
	dst = protocol.AppendString(dst, cut(b))
	copy(dst[at:], dst[at+1:])
	return dst[:len(dst)-1]
}

// cut shortens a text to what an entry may hold.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	n := maxText - len("…")
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

// decode reads an entry as it was stored.
func decode(s stored, seq uint64) (Entry, error) {
	var e Entry
	err := json.Unmarshal(s.json, &e)
	e.Seq = seq
	return e, err
}

// number is an integer as details have it.
func number(n uint64) string { return strconv.FormatUint(n, 10) }
