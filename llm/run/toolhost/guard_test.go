package toolhost

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/pack"
)

// update is a call of fs.apply_patch on the run's state.
func update(u object) object {
	return object{"path": StatePath, "patch": object{"operation": "updateFrontmatter", "update": u}}
}

func TestAPatchAdvancesTheRun(t *testing.T) {
	b := newBench(t)
	r := b.call("fs.apply_patch", update(object{
		"stepsCompleted": object{"append": []string{"ask", "ask"}}, "currentNodeId": object{"set": "choose"},
		"variables": object{"set": object{"warm": true}}, "artifacts": object{"append": []string{"artifacts/a.md"}},
		"decisionLog": object{"append": []object{{"from": "ask", "to": "choose", "label": "next"}}},
	}))
	text := b.get(b.state, "workflow.md")
	b.equal(r, object{"ok": true, "path": StatePath, "sha256Before": sum(stateText), "sha256After": sum(text)})
	state, err := pack.ReadState([]byte(text))
	if err != nil || state.CurrentNodeID != "choose" || len(state.StepsCompleted) != 1 || state.Variables["warm"] != true || len(state.DecisionLog) != 1 || len(state.Artifacts) != 1 {
		t.Errorf("the state is %+v, %v", state, err)
	}
	if !strings.HasSuffix(text, "---\n# Heating\n\nbody with trailing spaces   \n") || !strings.Contains(text, "heating # kept") {
		t.Errorf("the file is\n%s", text)
	}
	// flat, with the sum of what is there
	r = b.call("fs.apply_patch", object{"path": StatePath, "operation": "updateFrontmatter", "ifMatchSha256": sum(text),
		"update": object{"currentNodeId": object{"set": "done"}, "stepsCompleted": object{"append": []string{"choose", "done"}}}})
	b.equal(r["ok"], true)
	state, err = pack.ReadState([]byte(b.get(b.state, "workflow.md")))
	if err != nil || !state.Done(b.host.opts.Graph) {
		t.Errorf("the run is not done: %+v, %v", state, err)
	}
}

func TestIllegalWritesLeaveTheStateUntouched(t *testing.T) {
	b := newBench(t)
	fromAsk := []any{object{"to": "choose", "label": "next", "isDefault": false}}
	for name, c := range map[string]struct {
		code fault.Code
		text string // in place of the state
		u    object
		next []any
	}{
		"a jump over a node":          {code: fault.InvalidTransition, u: object{"currentNodeId": object{"set": "done"}}, next: fromAsk},
		"a jump to nowhere":           {code: fault.InvalidTransition, u: object{"currentNodeId": object{"set": "attic"}}, next: fromAsk},
		"an end that was not reached": {code: fault.InvalidTransition, u: object{"stepsCompleted": object{"append": []string{"done"}}}, next: fromAsk},
		"a step that is none":         {code: fault.SchemaValidation, u: object{"stepsCompleted": object{"append": []string{"attic"}}}},
		"a decision of another shape": {code: fault.SchemaValidation, u: object{"decisionLog": object{"append": []object{{"because": "x"}}}}},
		"a date that is none":         {code: fault.SchemaValidation, u: object{"updatedAt": object{"set": "soon"}}},
		"an unknown field":            {code: fault.SchemaValidation, u: object{"owner": object{"set": "me"}}},
		"another type":                {code: fault.SchemaValidation, text: strings.Replace(stateText, "stepsCompleted: []", "stepsCompleted: all", 1)},
		"no type":                     {code: fault.SchemaValidation, text: strings.Replace(stateText, "workflowType: heating # kept\n", "", 1)},
		"no frontmatter":              {code: fault.InvalidFrontmatter, text: "# Heating\n"},
		"broken YAML":                 {code: fault.InvalidFrontmatter, text: strings.Replace(stateText, "[]", "[", 1)},
		"nothing":                     {code: fault.InvalidFrontmatter, text: " "},
		"a written jump":              {code: fault.InvalidTransition, text: strings.Replace(stateText, `currentNodeId: ""`, "currentNodeId: done", 1), next: fromAsk},
		"binary":                      {code: fault.InvalidFrontmatter, text: "\x00\x01"},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			args, tool := update(c.u), "fs.apply_patch"
			if c.text != "" {
				args, tool = object{"path": "@state//./workflow.md", "content": c.text}, "fs.write"
			}
			e := b.fails(c.code, tool, args)
			if c.next != nil {
				details, _ := e["details"].(object)
				b.equal(details["from"], "ask")
				b.equal(details["allowedNext"], c.next)
				if details["to"] == "" || !strings.Contains(e["message"].(string), "ask → ") {
					t.Errorf("the error is %v", e)
				}
			}
			b.equal(b.get(b.state, "workflow.md"), stateText)
		})
	}
}

func TestStepsCompletedNeverShrinks(t *testing.T) {
	b := newBench(t)
	completed := strings.Replace(stateText, "stepsCompleted: []", "stepsCompleted: [ask, old]", 1)
	b.put(b.state, "workflow.md", completed)
	b.fails(fault.SchemaValidation, "fs.write", object{"path": StatePath, "content": stateText})
	b.fails(fault.SchemaValidation, "fs.write", object{"path": StatePath, "content": strings.Replace(completed, "[ask, old]", "[old, choose]", 1)})
	b.equal(b.get(b.state, "workflow.md"), completed)
	// another order, and one more
	b.equal(b.call("fs.write", object{"path": StatePath, "content": strings.Replace(completed, "[ask, old]", "[choose, old, ask]", 1)})["ok"], true)
}

func TestAllowedNextTellsAllOfAnEdge(t *testing.T) {
	b := newBench(t)
	b.put(b.state, "workflow.md", strings.Replace(stateText, `currentNodeId: ""`, "currentNodeId: choose", 1))
	e := b.fails(fault.InvalidTransition, "fs.apply_patch", update(object{"currentNodeId": object{"set": "attic"}}))
	b.equal(e["details"], object{"from": "choose", "to": "attic", "allowedNext": []any{
		object{"to": "done", "label": "warm", "isDefault": true, "conditionText": "it is warm"},
		object{"to": "ask", "label": "again", "isDefault": false},
	}})
	b.equal(b.call("fs.apply_patch", update(object{"currentNodeId": object{"set": "ask"}}))["ok"], true) // the loop
}

func TestADamagedStateIsNotBuiltUpon(t *testing.T) {
	b := newBench(t)
	for _, damage := range []string{"nonsense", "---\ncurrentNodeId: [\n---\n", "---\ncurrentNodeId: 7\n---\n", "---\na: &a [*a]\n---\n"} {
		b.put(b.state, "workflow.md", damage)
		for _, r := range []object{b.call("fs.write", object{"path": StatePath, "content": stateText}), b.call("fs.apply_patch", update(object{"currentNodeId": object{"set": "choose"}}))} {
			if r["ok"] != false {
				t.Errorf("%q was built upon: %v", damage, r)
			}
		}
		b.equal(b.get(b.state, "workflow.md"), damage)
	}
	b.put(b.state, "workflow.md", "\ufeff"+strings.ReplaceAll(stateText, "\n", "\r\n"))
	b.equal(b.call("fs.apply_patch", update(object{"currentNodeId": object{"set": "choose"}}))["ok"], true)
	if text := b.get(b.state, "workflow.md"); !strings.HasPrefix(text, "\ufeff---\r\n") || strings.Count(text, "\n") != strings.Count(text, "\r\n") {
		t.Errorf("line ends have changed: %q", text)
	}
	if err := os.Remove(filepath.Join(b.state, "workflow.md")); err != nil {
		t.Fatal(err)
	}
	b.fails(fault.NotFound, "fs.apply_patch", update(object{}))
	b.fails(fault.InvalidTransition, "fs.write", object{"path": StatePath, "content": strings.Replace(stateText, `""`, "done", 1)})
	b.equal(b.call("fs.write", object{"path": StatePath, "content": stateText})["ok"], true)
}

func TestTheLogAndTwinsOfTheStateAreNotWritten(t *testing.T) {
	b := newBench(t)
	for _, path := range []string{"@state/logs/execution.jsonl", "@state/Logs/x", "@state/logs", "@state/WORKFLOW.md", "@state/workflow.MD"} {
		b.fails(fault.Sandbox, "fs.write", object{"path": path, "content": "x"})
		b.fails(fault.Sandbox, "fs.apply_patch", object{"path": path, "update": object{"updatedAt": object{"set": ""}}})
	}
	b.equal(b.call("fs.write", object{"path": "@state/notes.md", "content": "x"})["ok"], true)
	b.equal(b.call("fs.write", object{"path": "@project/workflow.md", "content": "anything"})["ok"], true)
}

func TestPatchesAreCheckedBeforeAnythingHappens(t *testing.T) {
	b := newBench(t)
	for _, args := range []object{
		{"path": StatePath},
		{"path": StatePath, "patch": object{}},
		{"path": StatePath, "patch": object{"operation": "updateFrontmatter"}},
		{"path": StatePath, "patch": object{"operation": "replace", "update": object{}}},
		{"path": StatePath, "patch": object{"operation": "updateFrontmatter", "update": []any{}}},
		{"path": StatePath, "update": object{"stepsCompleted": object{"remove": []string{"ask"}}}},
		{"path": StatePath, "patch": object{"update": object{"variables": "x"}}},
	} {
		b.fails(fault.SchemaValidation, "fs.apply_patch", args)
	}
	b.fails(fault.InvalidFrontmatter, "fs.apply_patch", func() object {
		b.put(b.project, "plain.md", "# x\n")
		return object{"path": "@project/plain.md", "update": object{}}
	}())
	stale := object{"operation": "updateFrontmatter", "update": object{"currentNodeId": object{"set": "choose"}}, "ifMatchSha256": sum("other")}
	e := b.fails(fault.PreconditionFailed, "fs.apply_patch", object{"path": StatePath, "patch": stale})
	b.equal(e["details"].(object)["sha256"], sum(stateText))
	b.equal(b.get(b.state, "workflow.md"), stateText)
	// who repeats a patch that was made before a crash is told so
	stale["ifMatchSha256"] = sum(stateText)
	b.call("fs.apply_patch", object{"path": StatePath, "patch": stale})
	e = b.fails(fault.PreconditionFailed, "fs.apply_patch", object{"path": StatePath, "patch": stale})
	b.equal(e["details"].(object)["alreadyApplied"], true)
	b.put(b.project, "large.md", "---\na: 1\n---\n"+strings.Repeat("x", 10<<20))
	b.fails(fault.WriteLimit, "fs.apply_patch", object{"path": "@project/large.md", "update": object{"currentNodeId": object{"set": "x"}}})
	b.equal(b.call("fs.apply_patch", object{"path": "@pkg/../x", "update": object{}})["ok"], false)
}

func TestPatchesOfOneTurnApplyInTheirOrder(t *testing.T) {
	b := newBench(t)
	const n = 20
	var calls []any
	batch := make([]object, 0, n+2)
	batch = append(batch, update(object{"currentNodeId": object{"set": "choose"}}))
	for i := range n {
		batch = append(batch, update(object{"artifacts": object{"append": []string{fmt.Sprint(i)}}, "variables": object{"set": object{"last": i}}}))
	}
	batch = append(batch, update(object{"currentNodeId": object{"set": "done"}}))
	before := sum(stateText)
	for i, r := range b.turn("fs.apply_patch", batch) {
		if r["ok"] != true || r["sha256Before"] != before {
			t.Errorf("call %d: %v", i, r)
		}
		before, _ = r["sha256After"].(string)
		calls = append(calls, r)
	}
	state, err := pack.ReadState([]byte(b.get(b.state, "workflow.md")))
	if err != nil || state.CurrentNodeID != "done" || len(state.Artifacts) != n || state.Artifacts[n-1] != fmt.Sprint(n-1) || state.Variables["last"] != float64(n-1) {
		t.Errorf("after %d calls the state is %+v, %v", len(calls), state, err)
	}
}
