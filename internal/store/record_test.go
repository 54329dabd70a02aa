package store

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestRecordsAreJSONAsEncodingJSONHasIt(t *testing.T) {
	type inner struct {
		Raw   json.RawMessage `json:"raw"`
		Bytes []byte          `json:"bytes"`
	}
	type value struct {
		inner
		Text  string            `json:"text"`
		Map   map[string]int    `json:"map"`
		Time  time.Time         `json:"time"`
		Life  time.Duration     `json:"life"`
		Any   any               `json:"any"`
		Empty *string           `json:"empty,omitempty"`
		None  map[string]string `json:"none"`
	}
	v := value{
		inner: inner{Raw: json.RawMessage(`{"a": [1,2]}`), Bytes: []byte("x")},
		Text:  "<ü&\u2028>", Map: map[string]int{"b": 2, "a": 1},
		Time: time.Unix(1, 0).UTC(), Life: time.Second, Any: []any{1.5, nil},
	}
	got, err := encodeRecord(&v)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"v":1,"d":{"raw":{"a":[1,2]},"bytes":"eA==","text":"<ü&` + "\u2028" + `>","map":{"a":1,"b":2},` +
		`"time":"1970-01-01T00:00:01Z","life":1000000000,"any":[1.5,null],"none":null}}`
	if string(got) != want {
		t.Errorf("record = %s\nwant     %s", got, want)
	}
	back, err := decodeRecord[value](got)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := encodeRecord(back); err != nil || string(again) != want {
		t.Errorf("decoded and encoded again = %s, %v", again, err)
	}
}

func TestRecordsThatCannotBeReadSayWhy(t *testing.T) {
	tests := []struct{ record, want string }{
		{``, "not a record"},
		{`{"name":"x"}`, "not a record"},
		{`{"v":1}`, "no schema version"},
		{`{"v":x,"d":{}}`, "no schema version"},
		{`{"v":0,"d":{}}`, "no schema version"},
		{`{"v":4,"d":{}}`, "newer bridge: schema version 4, this one knows up to 3"},
		{`{"v":1,"d":{"name":"x"`, "cut off"},
		{`{"v":1,"d":{"name":}}`, "decode the value"},
		{`{"v":1,"d":{"name":7}}`, "decode the value"},
		{`{"v":1,"d":{}}}`, "decode the value"},
	}
	for _, test := range tests {
		if _, err := decodeRecord[thing]([]byte(test.record)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("decodeRecord(%s) = %v, want %q", test.record, err, test.want)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"v":1,"d":{"name":"x","n":7}}`))
	f.Add([]byte(`{"v":2,"d":{}}`))
	f.Add([]byte(`{"v":1,"d":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := decodeRecord[thing](data)
		if err != nil {
			return
		}
		again, err := encodeRecord(v)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := decodeRecord[thing](again); err != nil || *back != *v {
			t.Errorf("%v became %v, %v", v, back, err)
		}
	})
}
