package thing_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/doors/http/thing"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// official is the schema that W3C publishes, of 5 September 2022 for version 1.1.
func official(t testing.TB) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile("testdata/td-1.1.json")
	if err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("td.json", schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("td.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// check holds a description to the schema, and its forms of MQTT to the words of the
// binding.
func check(t testing.TB, schema *jsonschema.Schema, text []byte) map[string]any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		t.Errorf("not a Thing Description: %.2000v\n%s", err, text)
	}
	described := value.(map[string]any)
	properties, _ := described["properties"].(map[string]any)
	for name, p := range properties {
		for _, f := range p.(map[string]any)["forms"].([]any) {
			form := f.(map[string]any)
			href, _ := form["href"].(string)
			if filter, _ := form["mqv:filter"].(string); !strings.HasPrefix(href, "mqtt") || filter == "" || form["mqv:qos"] != "1" || form["mqv:retain"] != true {
				t.Errorf("the form of %s is %v", name, form)
			}
		}
	}
	return described
}

func TestWhateverASkillDeclaresItsDescriptionIsOne(t *testing.T) {
	schema := official(t)
	word := rapid.SampledFrom([]string{"type", "properties", "items", "required", "enum", "const", "minimum", "maxLength", "multipleOf", "oneOf", "$ref", "title", "format", "readOnly", "default"})
	var value *rapid.Generator[any]
	value = rapid.Custom(func(t *rapid.T) any {
		switch rapid.IntRange(0, 6).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom([]any{"string", "object", "array", "integer", "date-time", "", "other"}).Draw(t, "text")
		case 1:
			return rapid.SampledFrom([]any{0.0, -1.0, 3.0, 2.5}).Draw(t, "number")
		case 2:
			return rapid.Bool().Draw(t, "bool")
		case 3:
			return []any{"string", "null"}
		case 4:
			return []any{}
		default:
			all := map[string]any{}
			for range rapid.IntRange(0, 3).Draw(t, "members") {
				all[word.Draw(t, "word")] = rapid.Deferred(func() *rapid.Generator[any] { return value }).Draw(t, "value")
			}
			return all
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		params, err := json.Marshal(value.Draw(rt, "params"))
		if err != nil {
			rt.Fatal(err)
		}
		described := thing.Thing{
			Bridge: "home", Space: "default", Skill: protocol.SkillID(rapid.SampledFrom([]string{"heating", "desk lamp", "ä/ö:#?"}).Draw(rt, "skill")), HTTP: "http://127.0.0.1:9010", MQTT: "mqtt://127.0.0.1:1883",
			Topics: protocol.NewTopics("aibridge"), Agents: []protocol.AgentID{"a-1"}, Open: rapid.Bool().Draw(rt, "open"),
			Capabilities: []thing.Capability{{ID: "set", Params: params, Result: params, Reads: true}},
		}
		text, err := described.Describe()
		if err != nil {
			rt.Fatal(err)
		}
		check(t, schema, text)
		if again, _ := described.Describe(); !bytes.Equal(text, again) {
			rt.Fatal("the same skill has two descriptions")
		}
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// get reads a path as somebody.
func get(t testing.TB, n *bridgetest.Node, path, key string) (int, string, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.HTTPURL(path), nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	return do(t, request)
}

func do(t testing.TB, request *http.Request) (int, string, []byte) {
	t.Helper()
	response, err := bridgetest.HTTPClient(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header.Get("Content-Type"), body
}

func TestABridgeDescribesTheSkillsThatACallerMayInvoke(t *testing.T) {
	n := bridgetest.Start(t, func(c *app.Config) { c.Dev = false })
	text, err := os.ReadFile(filepath.Join(n.Config.Data, app.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	admin := strings.TrimSpace(string(text))
	call := func(key, command, params string) []byte {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.HTTPURL("/api/v1/commands/"+command), strings.NewReader(params))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+key)
		status, _, body := do(t, request)
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", command, status, body)
		}
		return body
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
	call(lamp, "skill.register", `{"agent_id":"lamp","skill":{"skill_id":"heating","name":"Light","description":"A lamp","capabilities":[
		{"capability_id":"set","name":"Set","idempotent":true,"params_schema":{"type":"object","properties":{"lumen":{"type":"integer","minimum":0}},"required":["lumen"]}},
		{"capability_id":"get","effect":"read","result_schema":{"type":["object","null"]}}]}}`)

	page, err := os.ReadFile("../../../docs/things.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/things", "/things/heating"} { // the commands of the page
		if !strings.Contains(string(page), `curl -H "Authorization: Bearer $KEY" http://127.0.0.1:9010`+path+"\n") {
			t.Errorf("the page does not read %s", path)
		}
	}
	schema := official(t)
	for _, path := range []string{"/things", "/things/heating"} {
		if status, _, body := get(t, n, path, ""); status != http.StatusUnauthorized {
			t.Errorf("a stranger gets %s: %d %s", path, status, body)
		}
	}
	status, kind, body := get(t, n, "/things/heating", olga)
	if status != http.StatusOK || kind != thing.MediaType {
		t.Fatalf("%d %s %s", status, kind, body)
	}
	light := check(t, schema, body)
	actions := light["actions"].(map[string]any)
	set, read := actions["set"].(map[string]any), actions["get"].(map[string]any)
	if light["title"] != "Light" || set["safe"] != false || set["idempotent"] != true || read["safe"] != true || !bytes.Contains(body, []byte(`"lumen":{"minimum":0,"type":"integer"}`)) {
		t.Errorf("the description is %s", body)
	}
	if card := light["properties"].(map[string]any)["lamp/card"]; card == nil || !strings.Contains(string(body), "aibridge/agent/lamp/state/reported") {
		t.Errorf("the state of its agent is not said: %s", body)
	}
	form := set["forms"].([]any)[0].(map[string]any)
	if at := form["href"].(string); light["base"].(string)+at != n.HTTPURL("/api/v1/commands/skill.invoke") {
		t.Errorf("the action is done at %s%s", light["base"], at)
	}
	status, kind, body = get(t, n, "/things", olga)
	var list []json.RawMessage
	if err := json.Unmarshal(body, &list); err != nil || status != http.StatusOK || kind != "application/ld+json" || len(list) != 1 {
		t.Fatalf("%d %s %s, %v", status, kind, body, err)
	}
	check(t, schema, list[0])

	if status, _, body := get(t, n, "/things", far); status != http.StatusOK || string(bytes.TrimSpace(body)) != "[]" {
		t.Errorf("another space gets %d %s", status, body)
	}
	_, _, hidden := get(t, n, "/things/heating", far)
	status, _, nothing := get(t, n, "/things/nothing", far)
	if status != http.StatusNotFound || strings.ReplaceAll(string(hidden), "heating", "nothing") != string(nothing) {
		t.Errorf("another space gets %s, not as %d %s", hidden, status, nothing)
	}
}
