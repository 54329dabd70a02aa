package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestListsAreShownForASpreadsheet(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ result, want string }{
		"a list":              {`{"total":2,"lines":[{"day":"2026-11-01","cost":0.5},{"day":"2026-11-02","cost":1e-7,"model":"a,\"b\""}]}`, "day,cost,model\n2026-11-01,0.5,\n2026-11-02,1e-7,\"a,\"\"b\"\"\"\n"},
		"no list":             {`{"state":"live","since":1700000000000,"more":null}`, "state,since,more\nlive,1700000000000,\n"},
		"an empty list":       {`{"total":0,"agents":[]}`, ""},
		"values inside":       {`{"a":[{"tags":["x","y"],"params":{"level":7},"on":true}]}`, "tags,params,on\n\"x,y\",\"{\"\"level\"\":7}\",true\n"},
		"formulas":            {`{"a":[{"name":"=HYPERLINK(1)","n":-1,"tags":["@x"]},{"name":"-2+3"}]}`, "name,n,tags\n'=HYPERLINK(1),-1,'@x\n'-2+3,,\n"},
		"a formula as a name": {`{"a":[{"=X()":1}]}`, "'=X()\n1\n"},
		"control":             {`{"a":[{"name":"\u001b[31m\u202ered"}]}`, "name\n\" [31m<U+202E>red\"\n"},
	} {
		var out strings.Builder
		if err := asCSV.write(&out, json.RawMessage(test.result), nil); err != nil || out.String() != test.want {
			t.Errorf("%s: %q, %v, want %q", name, out.String(), err, test.want)
		}
	}
	for result, want := range map[string]string{
		`{"a":[{"x":1}],"b":[{"y":2}]}`: "several lists, a, b",
		`[1,2]`:                         "is no object",
	} {
		var out strings.Builder
		if err := asCSV.write(&out, json.RawMessage(result), nil); err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%s: %v, %q", result, err, out.String())
		}
	}
	var out strings.Builder
	if err := asCSV.writeOne(&out, json.RawMessage(`{"x":1}`)); err == nil || out.Len() > 0 {
		t.Errorf("%v, %q", err, out.String())
	}
}
