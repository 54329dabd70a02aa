package audit

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestOnlyLoggableParametersAreShown(t *testing.T) {
	names := []string{"skill_id", "list", "n"}
	for params, want := range map[string]string{
		`{}`:               "",
		`[1]`:              "",
		`{"pin":"1234"}`:   "",
		`{"skill_id":"a"}`: `{"skill_id":"a"}`,
		` { "pin" : "1" , "skill_id" : "a\"}b" , "n" : 1 }`:                   `{"skill_id":"a\"}b","n":1}`,
		`{"inner":{"skill_id":"x"},"n":2}`:                                    `{"n":2}`,
		`{"list":[1,{"a":"]"}],"n":null}`:                                     `{"list":[1,{"a":"]"}],"n":null}`,
		`{"s":"\\","skill_id":"b"}`:                                           `{"skill_id":"b"}`,
		`{"s":"\\\"","skill_id":"c"}`:                                         `{"skill_id":"c"}`,
		`{"skill_id":"` + string(bytes.Repeat([]byte("x"), 300)) + `","n":1}`: `{"n":1}`,
	} {
		if got := string(appendShown(nil, []byte(params), names)); got != want {
			t.Errorf("%s: shows %s, want %s", params, got, want)
		}
	}
}

func FuzzAppendShown(f *testing.F) {
	f.Add([]byte(`{"a":"x","b":{"a":[1,2,"\"]"]}}`))
	f.Add([]byte(`{"a`))
	f.Add([]byte(`{"a":"\`))
	f.Fuzz(func(t *testing.T, params []byte) {
		shown := appendShown(nil, params, []string{"a", "b"})
		if json.Valid(params) && len(shown) > 0 && !json.Valid(shown) {
			t.Errorf("%q shows as %q", params, shown)
		}
	})
}
