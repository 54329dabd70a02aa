package protocol_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// Envelopes of the usual form, of which patterns are made.
const (
	usualRequest = `{"version":"0.6.3","id":"123e4567-e89b-42d3-a456-426614174000","timestamp":1737000000000,"type":"request","command":"skill.invoke",` +
		`"params":{"skill_id":"lamp","capability_id":"switch","params":{"on":true}},"metadata":{"trace_id":"t-1","timeout":30000}}`
	usualReply = `{"version":"0.6.3","id":"x-1","timestamp":1737000000000,"type":"response","status":"success","result":{"on":true},"error":null,` +
		`"metadata":{"sender_id":"lamp-1","trace_id":"t-1","warnings":[]}}`
)

// sameRequest asserts that a request that fits a pattern is read as by
// DecodeRequest.
func sameRequest(t *testing.T, p *protocol.Pattern, data []byte, limits protocol.Limits) (fits bool) {
	t.Helper()
	var f protocol.Fit
	if !p.Fit(data, &f) {
		return false
	}
	want, err := protocol.DecodeRequest(data, limits)
	if err != nil {
		t.Fatalf("%q fits, and is refused: %v", data, err)
	}
	for _, room := range [][]byte{nil, bytes.Repeat([]byte("x"), 5), bytes.Repeat([]byte("x"), 2*len(data))} { // of an earlier request
		var got protocol.Request
		body := p.Fill(&got, &f, room)
		if !reflect.DeepEqual(&got, want) {
			t.Fatalf("%q\nis read as %+v\nwant       %+v", data, &got, want)
		}
		if !bytes.Equal(f.Body, body) || !bytes.Contains(f.Params, body) {
			t.Fatalf("the body %q is %q", f.Body, body)
		}
	}
	return true
}

// sameReply asserts the same of a response and ViewReply. p is the pattern of usual.
func sameReply(t *testing.T, p *protocol.Pattern, usual string, data []byte, limits protocol.Limits) (fits bool) {
	t.Helper()
	var f protocol.Fit
	if !p.Fit(data, &f) {
		return false
	}
	want, err := protocol.ViewReply(data, limits)
	if err != nil || want.Response == nil {
		t.Fatalf("%q fits, and is read as %+v, %v", data, want, err)
	}
	made, err := protocol.ViewReply([]byte(usual), limits)
	if err != nil {
		t.Fatal(err)
	}
	got := *made.Response
	got.ID, got.Metadata.TraceID, got.Timestamp, got.Result = string(f.ID), string(f.Trace), f.Timestamp, f.Body
	got.Metadata.Timeout = f.Timeout
	if !reflect.DeepEqual(&got, want.Response) {
		t.Fatalf("%q\nis read as %+v\nwant       %+v", data, &got, want.Response)
	}
	return true
}

func TestPatternsFitTheUsual(t *testing.T) {
	p := protocol.RequestPattern([]byte(usualRequest), protocol.Limits{}, true)
	all := protocol.RequestPattern([]byte(usualRequest), protocol.Limits{}, false)
	if p == nil || all == nil {
		t.Fatal("no pattern of a usual request")
	}
	replace := func(old, new string) []byte { return []byte(strings.Replace(usualRequest, old, new, 1)) }
	for _, data := range [][]byte{
		[]byte(usualRequest), replace(`"123e4567-e89b-42d3-a456-426614174000"`, `"7"`), replace(`1737000000000`, `0`), replace(`"t-1"`, `""`), replace(`30000}}`, `29999}}`), replace(`30000}}`, `600000}}`),
		replace(`{"on":true}`, `{}`), replace(`{"on":true}`, `{ "a":[{"b":"\u00e9é\""}, 1e5] }`),
	} {
		if !sameRequest(t, p, data, protocol.Limits{}) || !sameRequest(t, all, data, protocol.Limits{}) {
			t.Errorf("%s does not fit", data)
		}
	}
	for _, data := range [][]byte{
		replace(`"123e4567-e89b-42d3-a456-426614174000"`, `"`+strings.Repeat("7", 65)+`"`), replace(`"123e4567`, "\"\x7f"),
		replace(`"123e4567-e89b-42d3-a456-426614174000"`, `""`), replace(`"t-1"`, `"`+strings.Repeat("t", 129)+`"`), replace(`1737000000000`, `01`), replace(`30000}}`, `0}}`), replace(`30000}}`, `600001}}`), replace(`30000}}`, `3e4}}`),
		replace(`1737000000000`, `999999999999999`), replace(`{"on":true}`, `[]`), replace(`{"on":true}`, `{"on":true,"on":true}`),
		replace(`{"on":true}`, `null`), replace(`{"on":true}`, strings.Repeat(`{"a":`, 63)+`1`+strings.Repeat(`}`, 63)),
		replace(`"lamp"`, `"lump"`), replace(`30000}}`, `30000}} x`), replace(`"t-1"`, "\"\x7f\""), []byte(usualRequest[:200]), nil,
	} {
		if sameRequest(t, p, data, protocol.Limits{}) {
			t.Errorf("%s fits", data)
		}
	}
	small := protocol.Limits{MaxBytes: len(usualRequest)}
	p = protocol.RequestPattern([]byte(usualRequest), small, true)
	if data := replace(`"t-1"`, `"t-12"`); sameRequest(t, p, data, small) {
		t.Errorf("%s fits and is too large", data)
	}
}

// Whoever sends what is unusual is not answered by a pattern.
func TestTheUnusualHasNoPattern(t *testing.T) {
	for old, new := range map[string]string{
		`"type":"request",`:             ``,
		`"123e4567-`:                    `"\u0031`,
		`"metadata":`:                   `"extension":{"a":1},"metadata":`,
		`"trace_id":"t-1"`:              `"trace_id":null`,
		`"skill_id":"lamp"`:             `"skill_id":"` + strings.Repeat("l", 1100) + `"`,
		`"version":"0.6.3"`:             `"version":"0.6"`,
		`"params":{"on":true}},`:        `"params":[]},`,
		`"timestamp":1737000000000,`:    `"timestamp":1.5,`,
		`"command":"skill.invoke",`:     ``,
		`"capability_id":"switch",`:     `"skill_id":"switch",`,
		`"metadata":{"trace_id":"t-1",`: `"metadata":{"trace_id":"t-1","priority":"none",`,
	} {
		data := []byte(strings.Replace(usualRequest, old, new, 1))
		if bytes.Equal(data, []byte(usualRequest)) {
			t.Fatalf("%s is not in it", old)
		}
		if protocol.RequestPattern(data, protocol.Limits{}, true) != nil {
			t.Errorf("a pattern of %s", data)
		}
	}
	for old, new := range map[string]string{
		`"status":"success"`:   `"status":"failed"`,
		`"id":"x-1"`:           `"id":7`,
		`"result":{"on":true}`: `"result":null`,
		`"type":"response"`:    `"type":"event"`,
		`"version":"0.6.3",`:   ``,
		`"error":null`:         `"response_to":"x-1"`,
	} {
		data := []byte(strings.Replace(usualReply, old, new, 1))
		if protocol.ResponsePattern(data, protocol.Limits{}) != nil {
			t.Errorf("a pattern of %s", data)
		}
	}
}

// FuzzPattern fills the holes of patterns with anything, and changes what is
// around them.
func FuzzPattern(f *testing.F) {
	f.Add(usualRequest, usualReply, "7", "t", "1", `{"a":[1,"b"]}`, 3, byte('x'))
	f.Add(usualRequest, usualReply, `7","id":"8`, "t\\n", "1e3", `{"a":1},"b":{}`, 0, byte('"'))
	f.Add(usualRequest, usualReply, "é", "\x7f", "-0", `null`, 200, byte(' '))
	f.Add(` { "metadata" : {"sender_id":"s"},"type":"request","params":{"params":{},"x":[]}, "command":"a.b","timestamp":0 ,"id":"1","version":"0.6.3"}`,
		`{"result":7,"id":"1","version":"0.6.3","status":"success"}`, "\xff", "", "253402300799999", `"text"`, 9, byte('7'))
	f.Fuzz(func(t *testing.T, request, reply, id, trace, stamp, body string, at int, by byte) {
		for _, inner := range []bool{false, true} {
			if p := protocol.RequestPattern([]byte(request), protocol.Limits{}, inner); p != nil {
				if !sameRequest(t, p, []byte(request), protocol.Limits{}) {
					t.Fatalf("%q does not fit its own pattern", request)
				}
				refill(request, p, id, trace, stamp, body, at, by, func(data []byte) { sameRequest(t, p, data, protocol.Limits{}) })
			}
		}
		if p := protocol.ResponsePattern([]byte(reply), protocol.Limits{}); p != nil {
			if !sameReply(t, p, reply, []byte(reply), protocol.Limits{}) {
				t.Fatalf("%q does not fit its own pattern", reply)
			}
			refill(reply, p, id, trace, stamp, body, at, by, func(data []byte) { sameReply(t, p, reply, data, protocol.Limits{}) })
		}
	})
}

// refill puts others into the holes of an envelope, one by one and together, and
// changes one byte.
func refill(text string, p *protocol.Pattern, id, trace, stamp, body string, at int, by byte, try func([]byte)) {
	var f protocol.Fit
	p.Fit([]byte(text), &f)
	all := text
	for old, new := range map[string]string{
		`"` + string(f.ID) + `"`: `"` + id + `"`, `"` + string(f.Trace) + `"`: `"` + trace + `"`,
		fmt.Sprint(f.Timestamp): stamp, fmt.Sprint(f.Timeout.Milliseconds()): stamp, string(f.Body): body,
	} {
		try([]byte(strings.Replace(text, old, new, 1)))
		all = strings.Replace(all, old, new, 1)
	}
	try([]byte(all))
	changed := []byte(all)
	if at >= 0 && at < len(changed) {
		changed[at] = by
		try(changed)
		try(append(changed[:at:at], changed[at+1:]...))
	}
}

func BenchmarkFit(b *testing.B) {
	p := protocol.RequestPattern(invocation, protocol.Limits{}, true)
	b.ReportAllocs()
	for b.Loop() {
		if !p.Fit(invocation, new(protocol.Fit)) {
			b.Fatal("does not fit")
		}
	}
}
