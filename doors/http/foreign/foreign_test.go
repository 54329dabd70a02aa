package foreign_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// lamp is a skill whose schemas have what documents of other kinds say in other words.
const lamp = `{"agent_id":"lamp","skill":{"skill_id":"desk lamp","name":"Light","description":"A lamp","capabilities":[
	{"capability_id":"set","name":"Set","idempotent":true,"params_schema":{"type":"object","required":["lumen"],"properties":{
		"lumen":{"type":"integer","minimum":0},"mode":{"enum":["day","night",null]},"at":{"type":["string","null"],"format":"date-time"},
		"rgb":{"type":"array","prefixItems":[{"type":"integer"}],"items":false}}}},
	{"capability_id":"refer","params_schema":{"$defs":{"a":{"type":"string"}},"$ref":"#/$defs/a"}},
	{"capability_id":"get","effect":"read","result_schema":{"type":["object","null"]}}]}}`

// answer sends a request to a bridge, and returns the body of the answer.
func answer(t *testing.T, n *bridgetest.Node, method, path, body string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, n.HTTPURL(path), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := bridgetest.HTTPClient(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %.300s %v", method, path, response.StatusCode, text, err)
	}
	return text
}

// validate has a validator judge a document, and returns what it finds wrong.
func validate(t *testing.T, kind string, document []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), kind+".json")
	if err := os.WriteFile(file, document, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "node", "validate.mjs", kind, file).CombinedOutput()
	if (err == nil) != (len(out) == 0) {
		t.Fatalf("the validator of %s: %v\n%s", kind, err, out)
	}
	return string(out)
}

// The documents in which a bridge describes itself are what they say they are, by the
// field's own validators – which refuse them once they have a fault.
func TestTheDocumentsOfABridgeAreValid(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not installed")
	}
	if _, err := os.Stat(filepath.Join("node_modules", "@asyncapi", "parser")); err != nil {
		t.Skip("the validators are not installed: run npm ci in doors/http/foreign")
	}
	n := bridgetest.Start(t)
	answer(t, n, http.MethodPost, "/api/v1/commands/agent.register", `{"agent_id":"lamp","type":"end_agent"}`)
	answer(t, n, http.MethodPost, "/api/v1/commands/skill.register", lamp)
	for kind, document := range map[string]struct {
		path, words, fault, finds string // the fault is to stand where the words do
	}{
		"openapi":  {"/openapi.json", `"#/components/schemas/Error"`, `"#/components/schemas/Nowhere"`, "Nowhere"},
		"asyncapi": {"/asyncapi.json", `"#/channels/request"`, `"#/channels/nowhere"`, "nowhere"},
		"thing":    {"/things/desk%20lamp", `"security":["nosec"]`, `"security":["nobodys"]`, "security"},
	} {
		text := answer(t, n, http.MethodGet, document.path, "")
		if !json.Valid(text) || kind != "openapi" && !strings.Contains(string(text), "lumen") {
			t.Errorf("%s does not have the skill: %.300s", document.path, text)
		}
		if found := validate(t, kind, text); found != "" {
			t.Errorf("%s: %.3000s", document.path, found)
		}
		wrong := strings.Replace(string(text), document.words, document.fault, 1)
		if found := validate(t, kind, []byte(wrong)); !strings.Contains(found, document.finds) {
			t.Errorf("%s with the fault %s: %q", document.path, document.fault, found)
		}
	}
}
