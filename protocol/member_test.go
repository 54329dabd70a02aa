package protocol

import (
	"strings"
	"testing"
)

func TestAMemberIsFoundInAnObject(t *testing.T) {
	for object, want := range map[string]string{
		`{"data":1}`: `1`,
		` { "a" : [ { "data" : 1 } ] , "data" : {"x": "}"} , "b":2}`: `{"x": "}"}`,
		`{"a":"\"data\":3","data":"four"}`:                           `"four"`,
		`{"d\u0061ta":true}`:                                         `true`,
		`{"data":null,"data":2}`:                                     `null`,
		`{"data":[1,2]`:                                              `[1,2]`,
		`{}`:                                                         ``,
		`{"b":2}`:                                                    ``,
		`{"b":2,}`:                                                   ``,
		`{"b":{"data":2}}`:                                           ``,
		`{"b" 2,"data":1}`:                                           ``,
		`{"b":nul,"data":1}`:                                         ``,
		`{"data":`:                                                   ``,
		`{"data`:                                                     ``,
		`[{"data":1}]`:                                               ``,
		`"data"`:                                                     ``,
		``:                                                           ``,
		`{"a":` + strings.Repeat("[", 200) + `,"data":1}`: ``,
	} {
		if got := string(Member([]byte(object), "data")); got != want {
			t.Errorf("data of %s is %s, want %s", object, got, want)
		}
	}
}
