package toolhost

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/llm/run/pack"
	"github.com/aibridge/aibridge/llm/tools"
)

const stateText = `---
schemaVersion: "1.1"
workflowType: heating # kept
currentNodeId: ""
stepsCompleted: []
variables: {}
decisionLog: []
artifacts: []
---
# Heating

body with trailing spaces   
`

// bench is a run with files in folders, and the executor that calls its tools.
type bench struct {
	t              *testing.T
	project, state string
	host           *Host
	limits         Limits
}

func workflowGraph(t testing.TB) *pack.Graph {
	t.Helper()
	step := func(id, kind string) []byte {
		return fmt.Appendf(nil, "---\nschemaVersion: \"1.1\"\nnodeId: %s\ntype: %s\n---\n", id, kind)
	}
	p, err := pack.Load(map[string][]byte{
		"bmad.json": []byte(`{"schemaVersion":"1.1","name":"x","version":"1.0.0","entry":{"workflow":"workflow.md","graph":"workflow.graph.json","agents":"agents.json"}}`),
		"agents.json": []byte(`{"schemaVersion":"1.1","agents":[{"id":"a","metadata":{"name":"A","title":"A","icon":"a"},
			"persona":{"role":"r","identity":"i","communication_style":"c","principles":"p"}}]}`),
		"workflow.md": []byte(stateText),
		"workflow.graph.json": []byte(`{"schemaVersion":"1.1","entryNodeId":"ask","nodes":[
			{"id":"ask","type":"step","file":"steps/ask.md"},{"id":"choose","type":"decision","file":"steps/choose.md"},{"id":"done","type":"end","file":"steps/done.md"}],
			"edges":[{"from":"ask","to":"choose","label":"next"},
			{"from":"choose","to":"done","label":"warm","isDefault":true,"conditionText":"it is warm"},{"from":"choose","to":"ask","label":"again"}]}`),
		"steps/ask.md": step("ask", "step"), "steps/choose.md": step("choose", "decision"), "steps/done.md": step("done", "end"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.Workflow("").Graph
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, project: t.TempDir(), state: t.TempDir()}
	project, err := mount.OpenFolder(b.project)
	if err != nil {
		t.Fatal(err)
	}
	state, err := mount.OpenPrivateFolder(b.state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = project.Close(); _ = state.Close() })
	pkg := mount.Memory(map[string][]byte{"steps/ask.md": []byte("Ask.\n"), "bmad.json": []byte("{}")})
	b.host = New(Options{Mounts: &mount.Mounts{Project: project, Pkg: pkg, State: state}, Graph: workflowGraph(t)})
	b.put(b.state, "workflow.md", stateText)
	return b
}

func (b *bench) put(dir, name, text string) {
	b.t.Helper()
	at := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) get(dir, name string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// object is a result as a model reads it.
type object = map[string]any

// calls has a model call tools in one turn.
func (b *bench) calls(calls ...*chat.ToolCall) []object {
	b.t.Helper()
	source, err := tools.Fixed(b.host.Tools(b.limits)...)
	if err != nil {
		b.t.Fatal(err)
	}
	box, err := tools.New(source).Select(b.t.Context(), tools.Environment{}, []string{"*"})
	if err != nil {
		b.t.Fatal(err)
	}
	var executor tools.Executor
	results := make([]object, len(calls))
	for i, r := range executor.Execute(b.t.Context(), box, tools.Environment{}, calls) {
		if len(r.Output.Content) == 0 {
			b.t.Fatalf("%s(%s) was not run: %v", calls[i].Name, calls[i].Args, r.Err)
		}
		if err := json.Unmarshal(r.Output.Content, &results[i]); err != nil {
			b.t.Fatal(err)
		}
		if ok, _ := results[i]["ok"].(bool); ok == r.Output.IsError {
			b.t.Errorf("%s: ok is %v, but IsError %v", calls[i].Name, ok, r.Output.IsError)
		}
		if text := string(r.Output.Content); strings.Contains(text, b.project) || strings.Contains(text, b.state) {
			b.t.Errorf("%s names a place of the host: %s", calls[i].Name, text)
		}
	}
	return results
}

func toolCall(name string, args any) *chat.ToolCall {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return &chat.ToolCall{ID: "c1", Name: name, Args: raw}
}

func (b *bench) call(name string, args any) object {
	b.t.Helper()
	return b.calls(toolCall(name, args))[0]
}

// fails is the error of a call that has to fail with a code.
func (b *bench) fails(code fault.Code, name string, args any) object {
	b.t.Helper()
	r := b.call(name, args)
	e, _ := r["error"].(object)
	if r["ok"] != false || e == nil || e["code"] != string(code) || e["message"] == "" || len(r) != 2 {
		b.t.Errorf("%s(%v) is %v, not %s", name, args, r, code)
	}
	return e
}

func (b *bench) equal(got, want any) {
	b.t.Helper()
	if !reflect.DeepEqual(got, want) {
		b.t.Errorf("got %v, not %v", got, want)
	}
}

func sum(text string) string { return mount.SumOf([]byte(text)).String() }

func TestAllFiveToolsAreDeclared(t *testing.T) {
	b := newBench(t)
	var names []string
	for _, tool := range b.host.Tools(Limits{}) {
		names = append(names, tool.Name)
		if tool.Source != Source || tool.Description == "" || !json.Valid(tool.JSONSchema()) {
			t.Errorf("%s is badly declared", tool.Name)
		}
	}
	b.equal(names, []string{"fs.read", "fs.list", "fs.search", "fs.write", "fs.apply_patch"})
}

func TestNothingOutsideTheMountsIsReached(t *testing.T) {
	b := newBench(t)
	outside := t.TempDir()
	b.put(outside, "secret", "secret")
	if err := os.Symlink(outside, filepath.Join(b.project, "out")); err != nil {
		t.Skip("no links here")
	}
	for _, path := range []string{"/etc/passwd", "@other/x", "@project/../x", "@project/out/secret", "@project/a\x00", "@project/nul", "workflow.md"} {
		for name, args := range map[string]object{
			"fs.read": {}, "fs.list": {}, "fs.search": {"pattern": "x"}, "fs.write": {"content": "x"}, "fs.apply_patch": {"update": object{"currentNodeId": object{"set": "x"}}},
		} {
			args["path"] = path
			b.fails(fault.Sandbox, name, args)
		}
	}
	for _, path := range []string{"@pkg/steps/ask.md", "@pkg/new.md", "@pkg"} {
		b.fails(fault.Sandbox, "fs.write", object{"path": path, "content": "x"})
		b.fails(fault.Sandbox, "fs.apply_patch", object{"path": path, "update": object{}})
	}
	b.equal(b.get(outside, "secret"), "secret")
}

func TestWritesAreAtomicAndChecked(t *testing.T) {
	b := newBench(t)
	r := b.call("fs.write", object{"path": "@project/artifacts/a.md", "content": "héllo"})
	b.equal(r, object{"ok": true, "path": "@project/artifacts/a.md", "bytesWritten": 6.0, "sha256After": sum("héllo")})
	r = b.call("fs.write", object{"path": "@project//artifacts/./a.md", "content": "two", "ifMatchSha256": strings.ToUpper(sum("héllo"))})
	b.equal(r["path"], "@project/artifacts/a.md")
	b.equal(b.get(b.project, "artifacts/a.md"), "two")
	for _, match := range []string{sum("other"), "wrong"} {
		b.fails(fault.PreconditionFailed, "fs.write", object{"path": "@project/artifacts/a.md", "content": "three", "ifMatchSha256": match})
		b.fails(fault.PreconditionFailed, "fs.write", object{"path": "@project/new.md", "content": "three", "ifMatchSha256": match})
	}
	b.equal(b.get(b.project, "artifacts/a.md"), "two")
	b.limits.MaxWriteBytes = 10
	e := b.fails(fault.WriteLimit, "fs.write", object{"path": "@project/artifacts/a.md", "content": "12345678901"})
	b.equal(e["details"], object{"bytes": 11.0, "limit": 10.0})
	b.equal(b.get(b.project, "artifacts/a.md"), "two")
	b.fails(fault.PreconditionFailed, "fs.write", object{"path": "@project/artifacts", "content": "x"})
	b.fails(fault.Sandbox, "fs.write", object{"path": "@project", "content": "x"})
	entries, err := os.ReadDir(filepath.Join(b.project, "artifacts"))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
	b.call("fs.write", object{"path": "@project/empty", "content": ""})
	b.equal(b.get(b.project, "empty"), "")
}

func TestOnWriteIsAskedBeforeAnythingHappens(t *testing.T) {
	b := newBench(t)
	var asked []string
	b.host.opts.OnWrite = func(_ context.Context, location mount.Location, before, after []byte) error {
		asked = append(asked, fmt.Sprintf("%s %q %q", location, before, after))
		if strings.Contains(string(after), "evil") {
			return fault.Errorf(fault.Sandbox, "no")
		}
		return nil
	}
	b.call("fs.write", object{"path": "@project/a", "content": "1"})
	b.call("fs.write", object{"path": "@project/a", "content": "2"})
	b.fails(fault.Sandbox, "fs.write", object{"path": "@project/a", "content": "evil"})
	b.equal(b.get(b.project, "a"), "2")
	b.equal(asked, []string{`@project/a "" "1"`, `@project/a "1" "2"`, `@project/a "2" "evil"`})
}

// turn has a model call one tool many times at once.
func (b *bench) turn(name string, args []object) []object {
	b.t.Helper()
	calls := make([]*chat.ToolCall, len(args))
	for i, a := range args {
		calls[i] = toolCall(name, a)
		calls[i].ID = fmt.Sprint("c", i)
	}
	return b.calls(calls...)
}

func TestAModelMayCallEverythingAtOnce(t *testing.T) {
	b := newBench(t)
	b.put(b.project, "notes.md", "one\ntwo\n")
	var calls []*chat.ToolCall
	for i := range 10 {
		calls = append(calls,
			toolCall("fs.read", object{"path": "@project/notes.md"}),
			toolCall("fs.search", object{"pattern": "two"}),
			toolCall("fs.list", object{"path": "@state"}),
			toolCall("fs.write", object{"path": fmt.Sprintf("@project/out/%d.md", i), "content": "two"}),
			toolCall("fs.apply_patch", update(object{"variables": object{"set": object{fmt.Sprint("v", i): i}}})),
			toolCall("fs.read", object{"path": "@project/../x"}))
	}
	for i, c := range calls {
		c.ID = fmt.Sprint("c", i)
	}
	for i, r := range b.calls(calls...) {
		if r["ok"] != (i%6 != 5) {
			t.Errorf("%s: %v", calls[i].Name, r)
		}
	}
	state, err := pack.ReadState([]byte(b.get(b.state, "workflow.md")))
	if err != nil || len(state.Variables) != 10 {
		t.Errorf("the state is %+v, %v", state, err)
	}
}
