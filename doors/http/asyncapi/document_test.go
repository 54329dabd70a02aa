package asyncapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/aibridge/aibridge/doors/http/asyncapi"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// official checks documents by the schema that AsyncAPI publishes.
func official(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile("testdata/asyncapi-3.0.0.json")
	if err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("asyncapi.json", schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("asyncapi.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// check holds a document to the schema, and its references to what is there.
func check(t *testing.T, text []byte) map[string]any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := official(t).Validate(value); err != nil {
		t.Errorf("not an AsyncAPI document: %.2000v", err)
	}
	document := value.(map[string]any)
	var follow func(v any)
	follow = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if to, ok := v["$ref"].(string); ok {
				var at any = document
				for name := range strings.SplitSeq(strings.TrimPrefix(to, "#/"), "/") {
					at = at.(map[string]any)[name]
					if at == nil {
						t.Errorf("%s leads nowhere", to)
						return
					}
				}
			}
			for _, inner := range v {
				follow(inner)
			}
		case []any:
			for _, inner := range v {
				follow(inner)
			}
		}
	}
	follow(document["operations"])
	return document
}

func TestAllCommandsAreAnAsyncAPIDocument(t *testing.T) {
	o := asyncapi.Options{Commands: slices.Collect(app.Commands().All()), Root: "aibridge", Version: "1.2.3"}
	text, err := asyncapi.Document(o)
	if err != nil {
		t.Fatal(err)
	}
	document := check(t, text)
	operations := document["operations"].(map[string]any)
	for _, c := range o.Commands {
		if operations[c.Name] == nil {
			t.Errorf("%s is missing", c.Name)
		}
	}
	if again, _ := asyncapi.Document(o); !bytes.Equal(text, again) {
		t.Error("another time it has other bytes")
	}
	delete(operations["agent.get"].(map[string]any), "action")
	if official(t).Validate(map[string]any(document)) == nil {
		t.Error("the schema takes an operation without an action")
	}
}

// get reads the document as somebody.
func get(t *testing.T, n *bridgetest.Node, key string) (int, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.HTTPURL("/asyncapi.json"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := bridgetest.HTTPClient(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, body
}

func TestABridgeShowsWhatACallerMayUse(t *testing.T) {
	n := bridgetest.Start(t, func(c *app.Config) { c.Dev = false })
	text, err := os.ReadFile(filepath.Join(n.Config.Data, app.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	admin := strings.TrimSpace(string(text))
	call := func(key, command, params string) json.RawMessage {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.HTTPURL("/api/v1/commands"), strings.NewReader(bridgetest.Request(protocol.NewID(), command, params)))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+key)
		response, err := bridgetest.HTTPClient(t).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		answer, err := protocol.DecodeResponse(body, protocol.Limits{})
		if err != nil || answer.Err != nil {
			t.Fatalf("%s: %s %v", command, body, err)
		}
		return answer.Result
	}
	keyOf := func(params string) string {
		t.Helper()
		var made struct{ Key string }
		if err := json.Unmarshal(call(admin, "key.create", params), &made); err != nil {
			t.Fatal(err)
		}
		return made.Key
	}
	lamp := keyOf(`{"principal_id":"lamp","kind":"agent","roles":["end_agent"]}`)
	olga := keyOf(`{"principal_id":"olga","kind":"operator","roles":["operator"]}`)
	far := keyOf(`{"principal_id":"far","kind":"operator","roles":["operator"],"space_id":"far"}`)
	call(lamp, "agent.register", `{"agent_id":"lamp","type":"end_agent"}`)
	call(lamp, "skill.register", `{"agent_id":"lamp","skill":{"skill_id":"desk lamp","name":"L","capabilities":[
		{"capability_id":"set","params_schema":{"type":"object","properties":{"lumen":{"type":"integer"}}}},
		{"capability_id":"refer","params_schema":{"$defs":{"a":{"type":"string","title":"referred"}},"$ref":"#/$defs/a"}}]}}`)

	if status, body := get(t, n, ""); status != http.StatusUnauthorized {
		t.Errorf("a stranger gets %d %s", status, body)
	}
	status, body := get(t, n, olga)
	if status != http.StatusOK || !bytes.Contains(body, []byte("lumen")) || bytes.Contains(body, []byte("referred")) {
		t.Errorf("an operator gets %d %.300s", status, body)
	}
	operations := check(t, body)["operations"].(map[string]any)
	if operations["skill__desk_20lamp__set"] == nil {
		t.Error("an operator does not see the skill")
	}
	status, body = get(t, n, far)
	if check(t, body); status != http.StatusOK || bytes.Contains(body, []byte("lumen")) || bytes.Contains(body, []byte("desk lamp")) {
		t.Errorf("an operator of another space gets %d, with the skill", status)
	}
	status, body = get(t, n, lamp)
	operations = check(t, body)["operations"].(map[string]any)
	if status != http.StatusOK || operations["agent.heartbeat"] == nil || operations["key.create"] != nil {
		t.Errorf("an agent gets %d: heartbeat %v, key.create %v", status, operations["agent.heartbeat"] != nil, operations["key.create"] != nil)
	}
}
