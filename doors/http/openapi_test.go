package http

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/aibridge/aibridge/commands"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestOpenAPIIsAsRecorded(t *testing.T) {
	t.Parallel()
	got, err := OpenAPI(testSet(t))
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/openapi.json"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("differs from %s; look at what -update changes", golden)
	}
}

func TestOpenAPIHoldsTogether(t *testing.T) {
	t.Parallel()
	set := testSet(t)
	data, err := OpenAPI(set)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	walk(document, func(o map[string]any) {
		target, ok := o["$ref"].(string)
		if !ok {
			return
		}
		if lookUp(document, target) == nil {
			t.Errorf("%s leads nowhere", target)
		}
	})
	for c := range set.All() {
		op, ok := lookUp(document, "#/paths/~1api~1v1~1commands~1"+c.Name+"/post").(map[string]any)
		if !ok {
			t.Fatalf("%s has no path", c.Name)
		}
		responses := op["responses"].(map[string]any)
		for _, code := range c.Errors {
			text, _ := json.Marshal(responses[jsonNumber(code.HTTPStatus())])
			if !strings.Contains(string(text), string(code)) {
				t.Errorf("%s does not tell of %s: %s", c.Name, code, text)
			}
		}
	}
}

func jsonNumber(n int) string { b, _ := json.Marshal(n); return string(b) }

// TestEnvelopeSchemas holds the schemas against real envelopes.
func TestEnvelopeSchemas(t *testing.T) {
	t.Parallel()
	data, err := OpenAPI(testSet(t))
	if err != nil {
		t.Fatal(err)
	}
	document, _ := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("openapi.json", document); err != nil {
		t.Fatal(err)
	}
	_, server := serve(t, Options{})
	request := envelope("r-1", "test.echo", `{"text":"hi"}`)
	for name, c := range map[string]struct {
		schema, instance string
		valid            bool
	}{
		"request":        {"Request", request, true},
		"not a request":  {"Request", `{"type":"request"}`, false},
		"success":        {"Response", do(t, server, "POST", "/api/v1/commands", request).body, true},
		"failure":        {"Response", do(t, server, "POST", "/api/v1/commands", "x").body, true},
		"not a response": {"Response", request, false},
	} {
		schema, err := compiler.Compile("openapi.json#/components/schemas/" + c.schema)
		if err != nil {
			t.Fatal(err)
		}
		instance, err := jsonschema.UnmarshalJSON(strings.NewReader(c.instance))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(instance); (err == nil) != c.valid {
			t.Errorf("%s %s: %v", name, c.instance, err)
		}
	}
}

// Tools that make clients of the document want to know where it is served,
// which operations belong together, and how each may be refused.
func TestOpenAPISaysWhereAndHowItFails(t *testing.T) {
	t.Parallel()
	data, err := OpenAPI(testSet(t))
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Servers []struct{ URL string }
		Tags    []struct{ Name, Description string }
		Paths   map[string]map[string]struct {
			Tags      []string
			Responses map[string]any
		}
	}
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	if len(document.Servers) != 1 {
		t.Errorf("servers: %v", document.Servers)
	}
	known := make(map[string]bool)
	for _, tag := range document.Tags {
		if known[tag.Name] = true; tag.Description == "" {
			t.Errorf("tag %s says nothing", tag.Name)
		}
	}
	for path, methods := range document.Paths {
		for method, op := range methods {
			if len(op.Tags) != 1 || !known[op.Tags[0]] {
				t.Errorf("%s %s: tags %v", method, path, op.Tags)
			}
			refused := false
			for status := range op.Responses {
				refused = refused || strings.HasPrefix(status, "4")
			}
			if !refused {
				t.Errorf("%s %s does not say how it is refused", method, path)
			}
		}
	}
}

// walk visits every object of a document.
func walk(value any, visit func(map[string]any)) {
	switch v := value.(type) {
	case map[string]any:
		visit(v)
		for _, inner := range v {
			walk(inner, visit)
		}
	case []any:
		for _, inner := range v {
			walk(inner, visit)
		}
	}
}

// lookUp follows a JSON pointer "#/a/b".
func lookUp(document any, pointer string) any {
	at := document
	for step := range slices.Values(strings.Split(strings.TrimPrefix(pointer, "#/"), "/")) {
		o, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = o[strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")]
	}
	return at
}

// TestOpenAPIDescribesFiles holds the references of the paths of files, and
// that they are there for bridges that have files only.
func TestOpenAPIDescribesFiles(t *testing.T) {
	t.Parallel()
	list := commands.New(commands.Spec{Name: "vfs.list", Summary: "List.", Action: "vfs:list", Effect: commands.Read, Example: `{"text":"hi"}`},
		func(context.Context, *commands.Call, echoParams) (echoResult, error) { return echoResult{}, nil })
	set, err := commands.NewSet(list)
	if err != nil {
		t.Fatal(err)
	}
	data, err := OpenAPI(set)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	walk(document, func(o map[string]any) {
		if target, ok := o["$ref"].(string); ok && lookUp(document, target) == nil {
			t.Errorf("%s leads nowhere", target)
		}
	})
	for path, parameters := range map[string]string{
		"/vfs/upload/post": "file", "/vfs/upload/put": "path!", "/vfs/download/get": "path", "/vfs/chunks/get": "path!",
		"/vfs/list/get": "next_cursor", "/vfs/delete/delete": "If-Match", "/vfs/health/get": "storage_used", "/vfs/sync/post": "Request",
	} {
		at := strings.LastIndex(path, "/")
		op, ok := lookUp(document, "#/paths/"+strings.ReplaceAll(path[:at], "/", "~1")+path[at:]).(map[string]any)
		if !ok {
			t.Fatalf("there is no %s", path)
		}
		text, _ := json.Marshal(op)
		if !strings.Contains(string(text), strings.TrimSuffix(parameters, "!")) {
			t.Errorf("%s does not tell of %s: %s", path, parameters, text)
		}
		wanted := strings.Contains(string(text), `"name":"path","required":true`)
		if wanted != strings.HasSuffix(parameters, "!") {
			t.Errorf("%s: path is required: %v", path, wanted)
		}
	}
	without, err := OpenAPI(testSet(t))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(without, []byte(`"/vfs/`)) {
		t.Error("files are described that there are not")
	}
}
