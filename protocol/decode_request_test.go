package protocol_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// with is a good request in which one field is replaced, or left out when
// value is "".
func with(field, value string) string {
	fields := []struct{ name, value string }{
		{"version", `"0.6.3"`}, {"id", `"7"`}, {"timestamp", `1737000000000`}, {"type", `"request"`},
		{"command", `"skill.invoke"`}, {"params", `{"a":1}`}, {"metadata", `{"trace_id":"t"}`},
	}
	var parts []string
	found := false
	for _, f := range fields {
		if f.name == field {
			f.value, found = value, true
		}
		if f.value != "" {
			parts = append(parts, fmt.Sprintf("%q:%s", f.name, f.value))
		}
	}
	if !found {
		parts = append(parts, fmt.Sprintf("%q:%s", field, value))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// failure asserts that err is an *Error with the code and returns it.
func failure(t *testing.T, err error, code protocol.Code) *protocol.Error {
	t.Helper()
	var e *protocol.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got error %v, want %s", err, code)
	}
	return e
}

func detail(e *protocol.Error, key string) string { return fmt.Sprint(e.Details[key]) }

func TestRequestIsRefusedForItsFirstWrongField(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		data   string
		param  string
		reason string // prefix
	}{
		"no version":           {with("version", ""), "version", "is missing"},
		"version is null":      {with("version", "null"), "version", "must be a string, is null"},
		"version is a number":  {with("version", "0.6"), "version", "must be a string, is a number"},
		"no id":                {with("id", ""), "id", "is missing"},
		"empty id":             {with("id", `""`), "id", "must have 1 to 64 characters, has 0"},
		"long id":              {with("id", `"`+strings.Repeat("é", 65)+`"`), "id", "must have 1 to 64 characters, has 65"},
		"id is a number":       {with("id", "7"), "id", "must be a string, is a number"},
		"no timestamp":         {with("timestamp", ""), "timestamp", "is missing"},
		"timestamp is text":    {with("timestamp", `"1737000000000"`), "timestamp", "must be a number, is a string"},
		"timestamp is halved":  {with("timestamp", `1.5`), "timestamp", "must be a whole number"},
		"timestamp is before":  {with("timestamp", `-1`), "timestamp", "must be 0 to 253402300799999"},
		"timestamp is beyond":  {with("timestamp", `1e300`), "timestamp", "must be a whole number"},
		"timestamp overflows":  {with("timestamp", `99999999999999999999`), "timestamp", "must be a whole number"},
		"no type":              {with("type", ""), "type", "is missing"},
		"another type":         {with("type", `"response"`), "type", `must be request, is "response"`},
		"no command":           {with("command", ""), "command", "is missing"},
		"empty command":        {with("command", `""`), "command", "must have 1 to 128 characters, has 0"},
		"long command":         {with("command", `"`+strings.Repeat("c", 129)+`"`), "command", "must have 1 to 128 characters, has 129"},
		"command with newline": {with("command", `"a\nb"`), "command", "may not contain control characters"},
		"command is a list":    {with("command", `["a"]`), "command", "must be a string, is an array"},
		"params is a list":     {with("params", `[]`), "params", "must be an object, is an array"},
		"params is text":       {with("params", `"{}"`), "params", "must be an object, is a string"},
		"params is false":      {with("params", `false`), "params", "must be an object, is a boolean"},
		"metadata is a list":   {with("metadata", `[]`), "metadata", "must be an object, is an array"},
		"extension is a list":  {with("extension", `[]`), "extension", "must be an object, is an array"},
		"empty sender":         {with("metadata", `{"sender_id":""}`), "metadata.sender_id", "must have 1 to 64 characters, has 0"},
		"long sender":          {with("metadata", `{"sender_id":"`+strings.Repeat("s", 65)+`"}`), "metadata.sender_id", "must have 1 to 64 characters, has 65"},
		"sender with NUL":      {with("metadata", `{"sender_id":"a\u0000"}`), "metadata.sender_id", "may not contain control characters"},
		"sender with C1":       {with("metadata", `{"sender_id":"a\u0085"}`), "metadata.sender_id", "may not contain control characters"},
		"sender is a number":   {with("metadata", `{"sender_id":1}`), "metadata.sender_id", "must be a string, is a number"},
		"long trace":           {with("metadata", `{"trace_id":"`+strings.Repeat("t", 129)+`"}`), "metadata.trace_id", "must have 0 to 128 characters, has 129"},
		"another priority":     {with("metadata", `{"priority":"urgent"}`), "metadata.priority", `must be low, medium or high, is "urgent"`},
		"long priority":        {with("metadata", `{"priority":"`+strings.Repeat("ü", 50)+`"}`), "metadata.priority", `must be low, medium or high, is "` + strings.Repeat("ü", 32) + `…"`},
		"priority is a number": {with("metadata", `{"priority":1}`), "metadata.priority", "must be a string, is a number"},
		"no time":              {with("metadata", `{"timeout":0}`), "metadata.timeout", "must be 1 to 600000"},
		"too much time":        {with("metadata", `{"timeout":600001}`), "metadata.timeout", "must be 1 to 600000"},
		"half a millisecond":   {with("metadata", `{"timeout":0.5}`), "metadata.timeout", "must be a whole number"},
		"timeout is text":      {with("metadata", `{"timeout":"30s"}`), "metadata.timeout", "must be a number, is a string"},
		"events is a number":   {with("metadata", `{"events":1}`), "metadata.events", "must be a boolean, is a number"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := protocol.DecodeRequest([]byte(tt.data), protocol.Limits{})
			e := failure(t, err, protocol.MalformedEnvelope)
			if got := detail(e, "param_name"); got != tt.param {
				t.Errorf("param_name %q, want %q", got, tt.param)
			}
			if got := detail(e, "reason"); got != tt.reason {
				t.Errorf("reason %q, want %q", got, tt.reason)
			}
			if _, ok := e.Details["offset"].(int); !ok {
				t.Errorf("offset is %v", e.Details["offset"])
			}
			if want := tt.param + " " + tt.reason; e.Message != want {
				t.Errorf("message %q, want %q", e.Message, want)
			}
		})
	}
}

func TestRequestThatIsNotJSONIsRefusedWithTheOffset(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`[`, 63) + strings.Repeat(`]`, 63)
	tests := map[string]struct {
		data   string
		param  string
		reason string
		offset int
	}{
		"nothing":           {"", "", "is empty", 0},
		"spaces":            {" \n", "", "is empty", 2},
		"text":              {"hello", "", "has hello, which is no JSON value, where a value should be", 0},
		"a list":            {"[1]", "", "must be an object, is an array", 0},
		"cut":               {`{"id":"7","params":{"a":`, "params.a", "ends where a value should be", 24},
		"two":               {`{} {}`, "", "has more data behind the value", 3},
		"byte order mark":   {"\ufeff{}", "", "begins with a byte order mark", 0},
		"NaN":               {`{"params":{"x":NaN}}`, "params.x", "has NaN, which is no JSON value, where a value should be", 15},
		"infinity":          {`{"params":{"x":-Infinity}}`, "params.x", "has the malformed number -Infinity", 15},
		"leading zero":      {`{"params":{"x":007}}`, "params.x", "has the malformed number 007", 15},
		"hexadecimal":       {`{"params":{"x":0x1F}}`, "params.x", "has the malformed number 0x1F", 15},
		"plus":              {`{"params":{"x":+1}}`, "params.x", `has '+' where a value should be`, 15},
		"bare point":        {`{"params":{"x":1.}}`, "params.x", "has the malformed number 1.", 15},
		"single quotes":     {`{'id':"7"}`, "", `has '\'' where a key should be`, 1},
		"trailing comma":    {`{"id":"7",}`, "", `has '}' where a key should be`, 10},
		"comment":           {`{"id":"7"/*c*/}`, "", `has '/' where a comma or } should be`, 9},
		"control character": {"{\"id\":\"7\",\"params\":{\"x\":\"a\tb\"}}", "params.x", "has the control character U+0009 in a string", 26},
		"invalid UTF-8":     {"{\"params\":{\"x\":[0,\"a\xffb\"]}}", "params.x[1]", "is not valid UTF-8", 20},
		"unpaired":          {`{"params":{"x":"\ud800"}}`, "params.x", "has an unpaired surrogate", 16},
		"duplicate":         {`{"id":"7","id":"8"}`, "id", "is a duplicate key", 10},
		"deep duplicate":    {`{"params":{"a":[{"b":1,"c":2,"b":3}]}}`, "params.a[0].b", "is a duplicate key", 29},
		"escaped duplicate": {`{"params":{"a":1,"\u0061":2}}`, "params.a", "is a duplicate key", 17},
		"as deep":           {`{"params":` + deep + `}`, "params", "must be an object, is an array", 10},
		"too deep":          {`{"x":` + "[" + deep + "]" + `}`, "x" + strings.Repeat("[0]", 63), "is nested deeper than 64", 68},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := tt.data
			if name == "as deep" {
				data = with("params", deep)
				tt.offset = strings.Index(data, deep)
			}
			_, err := protocol.DecodeRequest([]byte(data), protocol.Limits{})
			e := failure(t, err, protocol.MalformedEnvelope)
			if got, _ := e.Details["param_name"].(string); got != tt.param {
				t.Errorf("param_name %q, want %q", got, tt.param)
			}
			if got := detail(e, "reason"); got != tt.reason {
				t.Errorf("reason %q, want %q", got, tt.reason)
			}
			if got := e.Details["offset"]; got != tt.offset {
				t.Errorf("offset %v, want %d", got, tt.offset)
			}
		})
	}
}

func TestRequestOfAnotherVersionIsToldTheSupportedOnes(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"0.7.0", "1.0.0", "0.6", "0.6.", "0.6.x", "0.6.03", "0.6.3.1", "0.6.12345", "v0.6.3", ""} {
		// Whatever else is wrong may be right in that version.
		data := strings.Replace(with("timestamp", `"now"`), "0.6.3", version, 1)
		r, err := protocol.DecodeRequest([]byte(data), protocol.Limits{})
		e := failure(t, err, protocol.UnsupportedVersion)
		if got, want := e.Details["supported"], protocol.SupportedVersions(); !reflect.DeepEqual(got, want) {
			t.Errorf("version %q: supported %v, want %v", version, got, want)
		}
		if r.ID != "7" {
			t.Errorf("version %q: id %q is lost", version, r.ID)
		}
	}
}

func TestLaterPatchVersionsAreAccepted(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"0.6.3", "0.6.4", "0.6.10", "0.6.9999"} {
		r, err := protocol.DecodeRequest([]byte(strings.Replace(with("params", "{}"), "0.6.3", version, 1)), protocol.Limits{})
		if err != nil || r.Version != version || r.Deprecations != nil {
			t.Errorf("version %s: got %+v, %v", version, r, err)
		}
	}
}

func TestRequestThatFailsCanStillBeAnswered(t *testing.T) {
	t.Parallel()
	big := `{"id":"7","metadata":{"trace_id":"t"},"params":{"x":"` + strings.Repeat("x", 5000) + `"}}`
	tests := map[string]struct {
		data      string
		limits    protocol.Limits
		code      protocol.Code
		id, trace string
	}{
		"wrong field":        {with("command", "1"), protocol.Limits{}, protocol.MalformedEnvelope, "7", "t"},
		"id is a number":     {with("id", "12"), protocol.Limits{}, protocol.MalformedEnvelope, "12", "t"},
		"id is too long":     {with("id", `"`+strings.Repeat("i", 100)+`"`), protocol.Limits{}, protocol.MalformedEnvelope, strings.Repeat("i", 100), "t"},
		"id is far too long": {with("id", `"`+strings.Repeat("i", 300)+`"`), protocol.Limits{}, protocol.MalformedEnvelope, "", "t"},
		"cut in params":      {`{"id":"7","metadata":{"trace_id":"t"},"params":{"x`, protocol.Limits{}, protocol.MalformedEnvelope, "7", "t"},
		"cut in metadata":    {`{"id":"7","metadata":{"trace_id":"t","x":`, protocol.Limits{}, protocol.MalformedEnvelope, "7", "t"},
		"id comes after":     {`{"params":nope,"id":"7"}`, protocol.Limits{}, protocol.MalformedEnvelope, "", ""},
		"too large":          {big, protocol.Limits{MaxBytes: 4999}, protocol.PayloadTooLarge, "7", "t"},
		"much too large":     {big, protocol.Limits{MaxBytes: 20}, protocol.PayloadTooLarge, "7", ""},
		"first id counts":    {`{"id":"7","id":"8"}`, protocol.Limits{}, protocol.MalformedEnvelope, "7", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := protocol.DecodeRequest([]byte(tt.data), tt.limits)
			failure(t, err, tt.code)
			if r.ID != tt.id || r.Metadata.TraceID != tt.trace {
				t.Errorf("id %q, trace %q, want %q, %q", r.ID, r.Metadata.TraceID, tt.id, tt.trace)
			}
		})
	}
}

func TestTooLargeRequestIsToldTheLimit(t *testing.T) {
	t.Parallel()
	data := []byte(with("params", `{"x":"`+strings.Repeat("x", protocol.DefaultMaxBytes)+`"}`))
	_, err := protocol.DecodeRequest(data, protocol.Limits{})
	e := failure(t, err, protocol.PayloadTooLarge)
	if e.Details["size"] != len(data) || e.Details["limit"] != protocol.DefaultMaxBytes {
		t.Errorf("details %v", e.Details)
	}
	if _, err := protocol.DecodeRequest(data, protocol.Limits{MaxBytes: len(data)}); err != nil {
		t.Errorf("as large as allowed: %v", err)
	}
}

func TestRequestTakesWhatIsUnusualButRight(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		data  string
		check func(r *protocol.Request) bool
	}{
		"unknown fields":      {with("future", `{"a":[1,2,{"b":null}]}`), func(r *protocol.Request) bool { return r.Command == "skill.invoke" }},
		"unknown metadata":    {with("metadata", `{"hops":3,"priority":"low"}`), func(r *protocol.Request) bool { return r.Metadata.Priority == protocol.Low }},
		"escaped key":         {strings.Replace(with("params", "{}"), `"id"`, `"\u0069d"`, 1), func(r *protocol.Request) bool { return r.ID == "7" }},
		"escaped values":      {with("id", `"a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"`), func(r *protocol.Request) bool { return r.ID == "a\"\\/\b\f\n\r\té😀" }},
		"topic characters":    {with("id", `"a/+#$"`), func(r *protocol.Request) bool { return r.ID == "a/+#$" }},
		"64 wide characters":  {with("id", `"`+strings.Repeat("界", 64)+`"`), func(r *protocol.Request) bool { return r.ID == strings.Repeat("界", 64) }},
		"no clock":            {with("timestamp", "0"), func(r *protocol.Request) bool { return r.Timestamp == 0 }},
		"floating timestamp":  {with("timestamp", "1.737e12"), func(r *protocol.Request) bool { return r.Timestamp == 1737000000000 }},
		"longest timeout":     {with("metadata", `{"timeout":600000}`), func(r *protocol.Request) bool { return r.Metadata.Timeout == protocol.MaxTimeout }},
		"shortest timeout":    {with("metadata", `{"timeout":1}`), func(r *protocol.Request) bool { return r.Metadata.Timeout == time.Millisecond }},
		"timeout left out":    {with("metadata", `{}`), func(r *protocol.Request) bool { return r.Metadata.Timeout == 30*time.Second }},
		"timeout is null":     {with("metadata", `{"timeout":null}`), func(r *protocol.Request) bool { return r.Metadata.Timeout == 30*time.Second }},
		"events":              {with("metadata", `{"events":true}`), func(r *protocol.Request) bool { return r.Metadata.Events }},
		"no events":           {with("metadata", `{"events":false}`), func(r *protocol.Request) bool { return !r.Metadata.Events }},
		"extension":           {with("extension", `{"v": 1}`), func(r *protocol.Request) bool { return string(r.Extension) == `{"v": 1}` }},
		"extension is null":   {with("extension", `null`), func(r *protocol.Request) bool { return r.Extension == nil }},
		"spaces are kept":     {with("params", `{ "a" : 1 }`), func(r *protocol.Request) bool { return string(r.Params) == `{ "a" : 1 }` }},
		"white space around":  {" \r\n\t" + with("id", ` "7" `) + "\n", func(r *protocol.Request) bool { return r.ID == "7" }},
		"same key elsewhere":  {with("params", `{"id":1,"a":{"id":2},"b":{"id":3}}`), func(r *protocol.Request) bool { return r.ID == "7" }},
		"metadata in params":  {with("params", `{"metadata":{"sender_id":"x"}}`), func(r *protocol.Request) bool { return r.Metadata.SenderID == "" }},
		"as deep as allowed":  {with("params", `{"a":`+strings.Repeat("[", 62)+strings.Repeat("]", 62)+`}`), func(r *protocol.Request) bool { return len(r.Params) == 130 }},
		"large numbers":       {with("params", `{"a":1e999,"b":-0,"c":123456789012345678901234567890}`), func(r *protocol.Request) bool { return len(r.Params) == 53 }},
		"many keys and depth": {with("params", manyKeys(100)), func(r *protocol.Request) bool { return string(r.Params) == manyKeys(100) }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := protocol.DecodeRequest([]byte(tt.data), protocol.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Deprecations != nil {
				t.Errorf("deprecations %q", r.Deprecations)
			}
			if !tt.check(r) {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// manyKeys is an object with more keys than are compared with each other, at
// two levels.
func manyKeys(n int) string {
	var outer, inner []string
	for i := range n {
		inner = append(inner, fmt.Sprintf(`"k%d":%d`, i, i))
	}
	for i := range n {
		value := "1"
		if i%10 == 0 {
			value = "{" + strings.Join(inner, ",") + "}"
		}
		outer = append(outer, fmt.Sprintf(`"k%d":%s`, i, value))
	}
	return "{" + strings.Join(outer, ",") + "}"
}

func TestDecodedRequestKeepsNothingOfTheData(t *testing.T) {
	t.Parallel()
	data := []byte(with("extension", `{"v":"keep"}`))
	r, err := protocol.DecodeRequest(data, protocol.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	before := string(r.Append(nil))
	for i := range data {
		data[i] = 'x'
	}
	if after := string(r.Append(nil)); after != before {
		t.Errorf("changed with the data: %s", after)
	}
	r.Params = append(r.Params, "overwrites"...)
	if string(r.Extension) != `{"v":"keep"}` {
		t.Errorf("params and extension overlap: %s", r.Extension)
	}
}
