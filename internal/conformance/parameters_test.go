package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/bridgetest"
)

// A verdict is what became of a request.
type verdict struct {
	code, param, reason string
}

// blames reports whether the bridge finds fault with a parameter.
func (v verdict) blames(param string) bool {
	if v.code == "2005" { // unknown, or for a reason no serial at all
		return param == "cert_sn" && v.reason != ""
	}
	return v.code == "1001" && (v.param == param || strings.HasPrefix(v.param, param+"[") || strings.HasPrefix(v.param, param+"."))
}

// post sends a body to a path and reads the status and the body of the answer.
func post(t *testing.T, n *bridgetest.Node, path, body string) (status int, answer []byte) {
	t.Helper()
	return request(t, n, http.MethodPost, path, body, "")
}

// request makes an HTTP request, with an API key unless that is empty.
func request(t *testing.T, n *bridgetest.Node, method, path, body, key string) (status int, answer []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, n.HTTPURL(path), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("X-API-Key", key)
	}
	response, err := bridgetest.HTTPClient(t).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if answer, err = io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, answer
}

func judge(t *testing.T, n *bridgetest.Node, command string, params map[string]json.RawMessage) verdict {
	t.Helper()
	body, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	_, answer := post(t, n, "/api/v1/commands/"+command, string(body))
	var failure struct {
		Error struct {
			Code    string
			Details struct {
				Param  string `json:"param_name"`
				Reason string
			}
		}
	}
	if err := json.Unmarshal(answer, &failure); err != nil {
		t.Fatalf("%s %s: %s", command, body, answer)
	}
	return verdict{failure.Error.Code, failure.Error.Details.Param, failure.Error.Details.Reason}
}

// example are the parameters of a command with the document's example values.
func example(command string) map[string]json.RawMessage {
	params := make(map[string]json.RawMessage)
	for _, r := range rows {
		if r.command == command {
			params[r.param] = json.RawMessage(r.example)
		}
	}
	return params
}

// A probe is a value of a parameter and whether the document allows it.
type probe struct {
	name    string
	value   string // JSON, "" leaves the parameter out
	allowed bool
}

// probes are the values at the edges of what a row allows.
func (r row) probes() []probe {
	all := []probe{{"the example", r.example, true}, {leftOut, "", false}}
	word := func(n int) string { return fmt.Sprintf("%q", strings.Repeat("a", n)) }
	items := func(n int) string {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf(`"http://192.168.1.%d:9010"`, i)
			if r.param == "supported_scenes" {
				names[i] = fmt.Sprintf(`"SCENE_%d"`, i)
			}
		}
		return "[" + strings.Join(names, ",") + "]"
	}
	switch r.kind {
	case text:
		all = append(all, probe{"a number", "7", false})
		if r.param == "cert_sn" {
			return append(all, probe{"15 digits", `"8a1b2c3d4e5f6a7"`, false}, probe{"17 digits", `"8a1b2c3d4e5f6a7b0"`, false},
				probe{"capitals", `"8A1B2C3D4E5F6A7B"`, true}, probe{"no digits", `"8a1b2c3d4e5f6a7g"`, false})
		}
		return append(all, probe{"the shortest", word(r.least), true}, probe{"the longest", word(r.most), true},
			probe{"empty", `""`, false}, probe{"too long", word(r.most + 1), false})
	case integer:
		return append(all, probe{"the least", fmt.Sprint(r.least), true}, probe{"the most", fmt.Sprint(r.most), true},
			probe{"too little", fmt.Sprint(r.least - 1), false}, probe{"too much", fmt.Sprint(r.most + 1), false},
			probe{"a fraction", "1.5", false}, probe{"a text", `"1"`, false})
	case list:
		return append(all, probe{"one item", items(1), true}, probe{"the most items", items(r.most), true},
			probe{"no items", "[]", false}, probe{"too many items", items(r.most + 1), false}, probe{"a text", `"a"`, false})
	case boolean:
		return append(all, probe{"true", "true", true}, probe{"a text", `"true"`, false})
	case object:
		return append(all, probe{"a list", "[]", false})
	}
	return all
}

// TestEveryParameterIsAsInTheDocument tries the values at the edges of every
// row of the document's tables. A deviation that is listed must be one.
func TestEveryParameterIsAsInTheDocument(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	commands := make(map[string]bool)
	met := make(map[string]bool)
	for _, r := range rows {
		commands[r.command] = true
		for _, p := range r.probes() {
			params := example(r.command)
			if delete(params, r.param); p.value != "" {
				params[r.param] = json.RawMessage(p.value)
			}
			got := judge(t, n, r.command, params)
			allowed := !got.blames(r.param)
			if allowed && got.code == "1001" {
				t.Fatalf("%s, %s %s: another parameter is to blame: %+v", r.command, r.param, p.name, got)
			}
			if got.code >= "5" || got.code == "1002" {
				t.Errorf("%s, %s %s: %+v", r.command, r.param, p.name, got)
			}
			if allowed == p.allowed {
				continue
			}
			d := deviation(r.command, r.param, p.name)
			if d == nil {
				t.Errorf("%s, %s %s: allowed %v by the bridge, %v by the document: %+v", r.command, r.param, p.name, allowed, p.allowed, got)
				continue
			}
			met[d.name()] = true
		}
	}
	if len(rows) != 69 || len(commands) != 22 {
		t.Errorf("%d rows of %d commands, the document has 69 of 22", len(rows), len(commands))
	}
	for i := range parameterDeviations {
		if d := &parameterDeviations[i]; !met[d.name()] {
			t.Errorf("%s is listed as a deviation and is none", d.name())
		}
	}
}
