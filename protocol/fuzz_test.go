package protocol_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/aibridge/aibridge/protocol"
)

// seeds are all golden files, and what is wrong in instructive ways.
func seeds(f *testing.F) {
	f.Helper()
	for _, pattern := range []string{"testdata/*.json", "testdata/old/*.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal("no seeds", err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	for _, data := range []string{
		``, `{}`, `[]`, `{"id":7}`, `{"version":"0.7.0","id":"7"}`, `{"id":"7","id":"8"}`, `{"\u0069d":"7","id":"8"}`,
		`{"a":"\ud83d\ude00\ud800"}`, "{\"a\":\"\xff\"}", `{"a":NaN}`, `{"a":-0.5e+7,"b":01}`, strings.Repeat("[", 70), `{"metadata":{"trace_id":"t","x":`,
		`{"version":"0.6.3","id":"7","timestamp":1e3,"type":"request","command":"a.b","params":` + manyKeys(20) + `}`,
		`{"status":"error","error":{"code":30.05,"details":[1e999]},"response_to":7}`,
	} {
		f.Add([]byte(data))
	}
}

// checkError asserts what every error of a decoder has.
func checkError(t *testing.T, err error) {
	t.Helper()
	var e *protocol.Error
	if !errors.As(err, &e) {
		t.Fatalf("%T: %v", err, err)
	}
	switch e.Code {
	case protocol.MalformedEnvelope:
		if e.Details["reason"] == nil || e.Details["offset"] == nil {
			t.Fatalf("no reason or offset: %v", e.Details)
		}
	case protocol.UnsupportedVersion, protocol.PayloadTooLarge:
	default:
		t.Fatalf("code %s", e.Code)
	}
	if !json.Valid(e.Append(nil)) || len(e.Append(nil)) > 4096 {
		t.Fatalf("error as JSON: %.5000s", e.Append(nil))
	}
}

// asStrict reports what jsontext, which is as strict, thinks of the data.
func asStrict(data []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	if _, err := d.ReadValue(); err != nil {
		return false
	}
	_, err := d.ReadToken()
	return err != nil && d.InputOffset() <= int64(len(data)) && len(bytes.TrimSpace(data[d.InputOffset():])) == 0
}

func FuzzCheckJSON(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		err := protocol.CheckJSON(data, protocol.Limits{MaxDepth: 10000})
		if err != nil {
			checkError(t, err)
		}
		if got, want := err == nil, asStrict(data); got != want {
			t.Fatalf("%q: valid %v, jsontext says %v (%v)", data, got, want, err)
		}
		if err == nil && !json.Valid(data) {
			t.Fatalf("%q: encoding/json refuses it", data)
		}
	})
}

// FuzzPlain compares the steps in which strings are looked at with a look at each byte.
func FuzzPlain(f *testing.F) {
	for _, n := range []int{0, 7, 8, 15, 16, 31, 32, 33, 48, 63, 100} {
		f.Add([]byte(strings.Repeat("x", n)), 0)
		f.Add([]byte(strings.Repeat("x", n)+"\""), 3)
		f.Add([]byte(strings.Repeat("é", n)+"\x1f\xff"), 5)
	}
	f.Fuzz(func(t *testing.T, text []byte, from int) {
		text = text[min(max(from, 0), len(text)):] // at any address
		want := bytes.IndexFunc(text, func(c rune) bool { return c < ' ' || c == '"' || c == '\\' })
		if want < 0 {
			want = len(text)
		}
		if got := protocol.Plain(text); got != want {
			t.Fatalf("%q: %d, want %d", text, got, want)
		}
		if s := string(text); utf8.ValidString(s) {
			if got, want := string(protocol.AppendString(nil, s)), string(written(text)); got != want && !strings.ContainsAny(s, "\u2028\u2029\u007f") {
				t.Fatalf("written %s, want %s", got, want)
			}
		}
	})
}

func FuzzDecodeRequest(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := protocol.DecodeRequest(data, protocol.Limits{})
		if r == nil {
			t.Fatal("no request")
		}
		if !utf8.ValidString(r.ID) || len(r.ID) > 256 || !utf8.ValidString(r.Metadata.TraceID) {
			t.Fatalf("id %q, trace %q", r.ID, r.Metadata.TraceID)
		}
		if err != nil {
			checkError(t, err)
			return
		}
		if protocol.CheckJSON(data, protocol.Limits{}) != nil {
			t.Fatal("decoded what is not JSON")
		}
		if !json.Valid(r.Params) || r.Params[0] != '{' {
			t.Fatalf("params %q", r.Params)
		}
		again, err := protocol.DecodeRequest(r.Append(nil), protocol.Limits{MaxBytes: 8 << 20})
		if err != nil {
			t.Fatalf("%v in %s", err, r.Append(nil))
		}
		r.Deprecations, again.Deprecations = nil, nil
		if !reflect.DeepEqual(again, r) {
			t.Fatalf("got  %+v\nwant %+v", again, r)
		}
	})
}

func FuzzDecodeResponse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := protocol.DecodeResponse(data, protocol.Limits{})
		if err != nil {
			checkError(t, err)
			return
		}
		encoded := r.Append(nil)
		again, err := protocol.DecodeResponse(encoded, protocol.Limits{MaxBytes: 8 << 20, MaxDepth: 70})
		if err != nil {
			t.Fatalf("%v in %s", err, encoded)
		}
		if got := again.Append(nil); !bytes.Equal(got, encoded) {
			t.Fatalf("got  %s\nwant %s", got, encoded)
		}
	})
}

func FuzzDecodeEvent(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := protocol.DecodeEvent(data, protocol.Limits{})
		if err != nil {
			checkError(t, err)
			return
		}
		again, err := protocol.DecodeEvent(e.Append(nil), protocol.Limits{MaxBytes: 8 << 20})
		if err != nil {
			t.Fatalf("%v in %s", err, e.Append(nil))
		}
		if !bytes.Equal(again.Append(nil), e.Append(nil)) {
			t.Fatalf("got  %s\nwant %s", again.Append(nil), e.Append(nil))
		}
	})
}

func FuzzDecodeEnvelope(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := protocol.DecodeEnvelope(data, protocol.Limits{})
		if err != nil {
			checkError(t, err)
		}
		n := 0
		for _, set := range []bool{m.Request != nil, m.Response != nil, m.Event != nil} {
			if set {
				n++
			}
		}
		if n != 1 {
			t.Fatalf("%d of %+v", n, m)
		}
	})
}

func FuzzIdentifier(f *testing.F) {
	for _, s := range []string{"", "a", "a/b", "+", "$x", "x$", "a\x00", "\xff", "界", "\u0085", strings.Repeat("x", 65), "8a1b2c3d4e5f6a7B"} {
		f.Add(s)
	}
	topics := protocol.NewTopics("")
	f.Fuzz(func(t *testing.T, s string) {
		if protocol.AgentID(s).Rule().Check(s) == "" {
			topic := topics.AgentRequest(protocol.AgentID(s))
			if reason := protocol.CheckTopic(topic); reason != "" {
				t.Fatalf("%q %s", topic, reason)
			}
			if id, leaf, ok := topics.Agent(topic); string(id) != s || leaf != "request" || !ok {
				t.Fatalf("%q is taken apart as %q %q", topic, id, leaf)
			}
		}
		if serial, err := protocol.ParseSerial(s); err == nil && (len(serial) != 16 || !strings.EqualFold(string(serial), s)) {
			t.Fatalf("%q is the serial %q", s, serial)
		}
	})
}

func FuzzString(f *testing.F) {
	for _, s := range []string{"", "a\"b", "\xff\xfe", "\u2028", "eight by\x00te", "😀\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := protocol.AppendString(nil, s)
		var back string
		if err := json.Unmarshal(out, &back); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); utf8.ValidString(s) && back != want {
			t.Fatalf("got %q, want %q", back, want)
		}
		if err := protocol.CheckJSON(out, protocol.Limits{}); err != nil {
			t.Fatal(err)
		}
	})
}

// matchLevels is Match said plainly.
func matchLevels(filter, topic []string) bool {
	switch {
	case len(filter) == 0:
		return len(topic) == 0
	case filter[0] == "#":
		return true
	case len(topic) == 0:
		return false
	case filter[0] != "+" && filter[0] != topic[0]:
		return false
	}
	return matchLevels(filter[1:], topic[1:])
}

func FuzzFilter(f *testing.F) {
	for _, s := range [][2]string{{"a/+/#", "a/b/c"}, {"#", "$SYS/x"}, {"a/#", "a"}, {"$share/g/+", "a"}, {"+/+", "/"}, {"a//", "a//"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, filter, topic string) {
		if protocol.CheckFilter(filter) != "" || protocol.CheckTopic(topic) != "" {
			return
		}
		if _, inner, ok := protocol.SplitShare(filter); ok {
			filter = inner
			if protocol.CheckFilter(filter) != "" {
				return // a share within a share is only a name
			}
		}
		want := matchLevels(strings.Split(filter, "/"), strings.Split(topic, "/"))
		if strings.HasPrefix(topic, "$") && (filter[0] == '#' || filter[0] == '+') {
			want = false
		}
		if got := protocol.Match(filter, topic); got != want {
			t.Fatalf("Match(%q, %q) = %v", filter, topic, got)
		}
		// A topic is a filter that matches only itself.
		if got := protocol.Overlap(filter, topic); got != want {
			t.Fatalf("Overlap(%q, %q) = %v", filter, topic, got)
		}
	})
}
