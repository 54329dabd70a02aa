package pack

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/run/fault"
)

const manifestText = `{
  "schemaVersion": "1.1", "name": "heating", "version": "1.0.0-rc.1+x",
  "entry": {"workflow": "workflow.md", "graph": "workflow.graph.json", "agents": "agents.json", "assetsDir": "assets/"},
  "workflows": [
    {"id": "report", "workflow": "workflows/report/workflow.md", "graph": "workflows/report/workflow.graph.json", "displayName": "Report"},
    {"id": "main", "workflow": "workflow.md", "graph": "workflow.graph.json", "tags": ["home"]}
  ]
}`

const graphText = `{
  "schemaVersion": "1.1.3", "entryNodeId": "ask",
  "nodes": [
    {"id": "ask", "type": "step", "file": "steps/ask.md", "agentId": "warden"},
    {"id": "choose", "type": "decision", "file": "steps/choose.md"},
    {"id": "join", "type": "merge", "file": "./steps/join.md"},
    {"id": "done", "type": "end", "file": "steps/done.md"}
  ],
  "edges": [
    {"from": "ask", "to": "choose", "label": "next"},
    {"from": "choose", "to": "join", "label": "warm", "isDefault": true, "conditionText": "it is warm"},
    {"from": "choose", "to": "ask", "label": "again", "conditionExpr": {"==": [{"var": "ok"}, false]}},
    {"from": "join", "to": "done", "label": "next"}
  ],
  "metadata": {"anything": [1]}
}`

const agentsText = `{"schemaVersion": "1.1", "agents": [{
  "id": "warden",
  "metadata": {"name": "Ada", "title": "Warden", "icon": "🔥"},
  "persona": {"role": "warden", "identity": "keeps the house warm", "communication_style": "short", "principles": ["ask first", "then act"]},
  "menu": [{"description": "Warm up", "trigger": "warm", "workflow": "main", "extra": true}],
  "tools": {"fs": {"maxReadBytes": 1000}, "mcp": {"enabled": true, "allowedServers": []}}
}]}`

const workflowText = "---\nschemaVersion: 1.1\nworkflowType: heating\ncurrentNodeId:\nstepsCompleted: []\nupdatedAt: \"\"\nvariables: {}\ncustom: yes\n---\n# Heating\n"

func stepText(id, kind string) string {
	return fmt.Sprintf("---\nschemaVersion: \"1.1\"\nnodeId: %s\ntype: %s\n---\nDo %s.\n", id, kind, id)
}

func sample() map[string]string {
	return map[string]string{
		"bmad.json": manifestText, "agents.json": agentsText,
		"workflow.md": workflowText, "workflow.graph.json": graphText,
		"steps/ask.md": stepText("ask", "step"), "steps/choose.md": stepText("choose", "decision"),
		"steps/join.md": stepText("join", "merge"), "steps/done.md": stepText("done", "end"),
		"workflows/report/workflow.md": workflowText,
		"workflows/report/workflow.graph.json": `{"schemaVersion":"1.1","entryNodeId":"only","edges":[],
			"nodes":[{"id":"only","type":"step","file":"workflows/report/only.md"}]}`,
		"workflows/report/only.md": stepText("only", "step"),
		"assets/house.txt":         "a house",
	}
}

func load(files map[string]string) (*Package, error) {
	raw := make(map[string][]byte, len(files))
	for name, text := range files {
		raw[name] = []byte(text)
	}
	return Load(raw)
}

func zipped(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAPackageIsReadWhole(t *testing.T) {
	p, err := Read(zipped(t, sample()), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Workflows) != 2 || p.Workflows[0].ID != "main" || p.Workflow("") != p.Workflows[0] {
		t.Fatalf("the workflows are %v", p.Workflows)
	}
	if p.Workflow("report") == nil || p.Workflow("workflows/report/workflow.md") != p.Workflow("report") || p.Workflow("nobody") != nil {
		t.Error("workflows are not found by id and path")
	}
	w := p.Workflow("main")
	if w.State.SchemaVersion != "1.1" || w.State.CurrentNodeID != "" || w.State.UpdatedAt != "" {
		t.Errorf("the state is %+v", w.State)
	}
	if got := w.Steps["join"]; got.Path != "steps/join.md" || got.Body != "Do join.\n" || w.Graph.Node("join").File != "steps/join.md" {
		t.Errorf("the step is %+v", got)
	}
	if next := w.Graph.Next("choose"); len(next) != 2 || next[0].ConditionText != "it is warm" || !w.Graph.Legal("choose", "ask") || w.Graph.Legal("ask", "done") {
		t.Errorf("after choose comes %v", next)
	}
	a := p.Agent("warden")
	if a == nil || len(a.Persona.Principles) != 2 || *a.Tools.FS.MaxReadBytes != 1000 || a.Tools.FS.Enabled != nil || len(*a.Tools.MCP.AllowedServers) != 0 {
		t.Errorf("the agent is %+v", a)
	}
	if string(p.Files()["assets/house.txt"]) != "a house" || p.SHA256 == [32]byte{} {
		t.Error("assets or the checksum are missing")
	}
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "no end node") {
		t.Errorf("warnings are %q", p.Warnings)
	}
}

func TestTheEntryIsAWorkflowEvenIfNotListed(t *testing.T) {
	files := sample()
	files["bmad.json"] = `{"schemaVersion":"1.1","name":"x","version":"0.0.1","entry":{"workflow":"workflow.md","graph":"workflow.graph.json","agents":"agents.json"}}`
	files["agents.json"] = strings.Replace(agentsText, `"workflow": "main"`, `"workflow": "{project-root}/_bmad/x/workflow.md"`, 1)
	p, err := load(files)
	if err != nil || p.CheckMenus() != nil || len(p.Workflows) != 1 || p.Workflow("").ID != "workflow.md" {
		t.Fatalf("%v, %v", p, err)
	}
}

// Each change breaks one thing; the error must name the file and the place.
func TestProblemsNameFileAndPath(t *testing.T) {
	for name, c := range map[string]struct{ file, old, new, want string }{
		"version of the format": {"bmad.json", `"1.1"`, `"1.0"`, "bmad.json: schemaVersion: must be 1.1 or 1.1.n"},
		"no name":               {"bmad.json", `"name": "heating", `, ``, "bmad.json: name: is missing"},
		"not SemVer":            {"bmad.json", `1.0.0-rc.1+x`, `1.0`, "bmad.json: version: "},
		"unknown key":           {"bmad.json", `"name"`, `"colour": 1, "name"`, "bmad.json: colour: is not known"},
		"key twice":             {"bmad.json", `"name"`, `"name": "a", "name"`, "bmad.json: is not JSON that can be read: duplicate"},
		"bad id":                {"bmad.json", `"report"`, `"-report"`, "bmad.json: workflows[0].id: must begin with"},
		"id twice":              {"bmad.json", `"report"`, `"main"`, `bmad.json: workflows[1].id: "main" is the id of workflows[0] already`},
		"entry without agents":  {"bmad.json", `"agents": "agents.json", `, ``, "bmad.json: entry.agents: is missing"},
		"missing file":          {"bmad.json", `"agents.json"`, `"people.json"`, `bmad.json: entry.agents: there is no file "people.json"`},
		"file outside":          {"bmad.json", `"agents.json"`, `"../agents.json"`, `bmad.json: entry.agents: "../agents.json" is no path`},
		"two graphs":            {"bmad.json", `"graph": "workflow.graph.json", "tags"`, `"graph": "workflows/report/workflow.graph.json", "tags"`, "bmad.json: workflows[1].graph: "},
		"not JSON":              {"agents.json", `"agents":`, `agents:`, "agents.json: is not JSON"},
		"behind the end":        {"agents.json", `}]}`, `}]} {}`, "agents.json: is not JSON that can be read: there is something behind"},
		"no icon":               {"agents.json", `, "icon": "🔥"`, ``, "agents.json: agents[0].metadata.icon: is missing"},
		"empty role":            {"agents.json", `"role": "warden"`, `"role": ""`, "agents.json: agents[0].persona.role: may not be empty"},
		"principles":            {"agents.json", `["ask first", "then act"]`, `7`, "agents.json: agents[0].persona.principles: must be"},
		"no agents":             {"agents.json", agentsText, `{"schemaVersion":"1.1","agents":[]}`, "agents.json: agents: "},
		"menu":                  {"agents.json", `"description": "Warm up", `, ``, "agents.json: agents[0].menu[0].description: is missing"},
		"limit":                 {"agents.json", `1000`, `0`, "agents.json: agents[0].tools.fs.maxReadBytes: "},
		"unknown tool policy":   {"agents.json", `"fs":`, `"web":`, "agents.json: agents[0].tools.web: is not known"},
		"missing workflow":      {"agents.json", `"workflow": "main"`, `"workflow": "{project-root}/flows/none/workflow.md"`, `agents.json: agents[0].menu[0].workflow: the package has no workflow "{project-root}/flows/none/workflow.md"; it has "main", "report"`},
		"missing prompt":        {"agents.json", `"workflow": "main"`, `"action": "#none"`, `agents.json: agents[0].menu[0].action: the agent has no prompt "none"`},
		"tools by no name":      {"agents.json", `"mcp": {`, `"bridge": {"allowedTools": ["*"]}, "mcp": {`, "agents.json: agents[0].tools.bridge.allowedTools[0]: "},
		"completion":            {"workflow.graph.json", `{"anything": [1]}`, `{"completedBy": "anybody"}`, "workflow.graph.json: metadata.completedBy: must be one of"},
		"node type":             {"workflow.graph.json", `"type": "merge"`, `"type": "join"`, "workflow.graph.json: nodes[2].type: must be one of"},
		"empty label":           {"workflow.graph.json", `"label": "warm"`, `"label": ""`, "workflow.graph.json: edges[1].label: may not be empty"},
		"condition":             {"workflow.graph.json", `{"==": [{"var": "ok"}, false]}`, `"ok"`, "workflow.graph.json: edges[2].conditionExpr: must be object, is string"},
		"no entry":              {"workflow.graph.json", `"entryNodeId": "ask"`, `"entryNodeId": "begin"`, `workflow.graph.json: entryNodeId: there is no node "begin"`},
		"node twice":            {"workflow.graph.json", `"id": "join"`, `"id": "done"`, `workflow.graph.json: nodes[3].id: "done" is the id of nodes[2] already`},
		"dangling edge":         {"workflow.graph.json", `"to": "choose"`, `"to": "chose"`, `workflow.graph.json: edges[0].to: there is no node "chose"`},
		"edge from nowhere":     {"workflow.graph.json", `"from": "join"`, `"from": "jain"`, `workflow.graph.json: edges[3].from: there is no node "jain"`},
		"edge twice":            {"workflow.graph.json", `"edges": [`, `"edges": [{"from": "ask", "to": "choose", "label": "next"},`, "workflow.graph.json: edges[1]: is edges[0] again"},
		"edge out of the end":   {"workflow.graph.json", `"edges": [`, `"edges": [{"from": "done", "to": "ask", "label": "again"},`, "workflow.graph.json: edges[0].from: no edge may leave"},
		"unreachable":           {"workflow.graph.json", `"to": "done"`, `"to": "choose"`, `workflow.graph.json: nodes[3]: "done" cannot be reached`},
		"step is missing":       {"workflow.graph.json", `"steps/ask.md"`, `"steps/nobody.md"`, `workflow.graph.json: nodes[0].file: there is no file "steps/nobody.md"`},
		"step outside":          {"workflow.graph.json", `"steps/ask.md"`, `"/etc/passwd"`, `workflow.graph.json: nodes[0].file: "/etc/passwd" is no path`},
		"unknown agent":         {"workflow.graph.json", `"warden"`, `"guard"`, `workflow.graph.json: nodes[0].agentId: there is no agent "guard"`},
		"no frontmatter":        {"workflow.md", workflowText, "# Heating\n", "workflow.md: the file does not begin with"},
		"bad YAML":              {"workflow.md", `stepsCompleted: []`, `stepsCompleted: [`, "workflow.md: the frontmatter is not valid YAML"},
		"no type":               {"workflow.md", "workflowType: heating\n", "", "workflow.md: workflowType: is missing"},
		"steps are no list":     {"workflow.md", `stepsCompleted: []`, `stepsCompleted: all`, "workflow.md: stepsCompleted: must be array, is string"},
		"nowhere":               {"workflow.md", `currentNodeId:`, `currentNodeId: attic`, `workflow.md: currentNodeId: there is no node "attic"`},
		"date":                  {"workflow.md", `updatedAt: ""`, `updatedAt: yesterday`, "workflow.md: updatedAt: must be a date-time"},
		"decision":              {"workflow.md", `custom: yes`, `decisionLog: [{from: a, to: b, why: c}]`, "workflow.md: decisionLog[0].label: is missing"},
		"step of another node":  {"steps/done.md", "nodeId: done", "nodeId: end", `steps/done.md: nodeId: is "end", but workflow.graph.json says nodes[3].id is "done"`},
		"step of another type":  {"steps/done.md", "type: end", "type: step", `steps/done.md: type: is "step"`},
		"transition":            {"steps/ask.md", "---\nDo", "transitions: [{to: choose}]\n---\nDo", "steps/ask.md: transitions[0].label: is missing"},
	} {
		files := sample()
		changed := strings.Replace(files[c.file], c.old, c.new, 1)
		if changed == files[c.file] {
			t.Errorf("%s: the test changes nothing", name)
		}
		files[c.file] = changed
		p, err := load(files)
		if err == nil {
			err = p.CheckMenus()
		}
		if fault.CodeOf(err) != fault.PackageInvalid {
			t.Errorf("%s: %v", name, err)
			continue
		}
		problems := fault.As(err).Details["errors"].([]Problem)
		if !slices.ContainsFunc(problems, func(p Problem) bool { return strings.HasPrefix(p.String(), c.want) }) {
			t.Errorf("%s: problems are %v, none is %s", name, problems, c.want)
		}
	}
}

func TestAVariableEndsTheRunsOfGraphsThatSaySo(t *testing.T) {
	const step, end = `{"id":"ask","type":"decision","file":"steps/ask.md"}`, `,{"id":"done","type":"end","file":"steps/done.md"}`
	for name, c := range map[string]struct {
		nodes, edges, metadata string
		want                   bool
		warning                string
	}{
		"an end node":            {step + end, `{"from":"ask","to":"done","label":"next"}`, `{}`, false, ""},
		"and so it says":         {step + end, `{"from":"ask","to":"done","label":"next"}`, `{"completedBy":"endNode"}`, false, ""},
		"the package opts out":   {step + end, `{"from":"ask","to":"done","label":"next"}`, `{"completedBy":"variable"}`, true, ""},
		"no end node":            {step, ``, `{}`, true, "only when it sets"},
		"none, and never is one": {step, ``, `{"completedBy":"endNode"}`, false, "never complete"},
	} {
		files := sample()
		files["workflow.graph.json"] = `{"schemaVersion":"1.1","entryNodeId":"ask","metadata":` + c.metadata + `,"nodes":[` + c.nodes + `],"edges":[` + c.edges + `]}`
		files["steps/ask.md"] = stepText("ask", "decision")
		p, err := load(files)
		if err != nil {
			t.Errorf("%s: %v", name, fault.As(err).Details)
			continue
		}
		st, err := ReadState([]byte("---\nschemaVersion: \"1.1\"\nworkflowType: x\ncurrentNodeId: ask\nstepsCompleted: []\nvariables: {workflowStatus: complete}\n---\n"))
		if err != nil || st.Done(p.Workflow("main").Graph) != c.want {
			t.Errorf("%s: the variable completes the run: %t, %v", name, !c.want, err)
		}
		if said := strings.Join(p.Warnings, "\n"); !strings.Contains(said, c.warning) {
			t.Errorf("%s: warnings are %s", name, said)
		}
	}
}

func TestLoopsNeedADecisionAndAWayOut(t *testing.T) {
	graph := func(kind, edges string) string {
		return `{"schemaVersion":"1.1","entryNodeId":"ask","nodes":[
			{"id":"ask","type":"` + kind + `","file":"steps/ask.md"},{"id":"done","type":"end","file":"steps/done.md"}],"edges":[` + edges + `]}`
	}
	out, self := `{"from":"ask","to":"done","label":"out"}`, `{"from":"ask","to":"ask","label":"again"}`
	for name, c := range map[string]struct{ graph, kind, want string }{
		"a decision may repeat itself": {graph("decision", out+","+self), "decision", ""},
		"a step may not":               {graph("step", out+","+self), "step", "has no decision node"},
		"without a way out":            {graph("decision", self), "decision", "has no edge that leaves it"},
	} {
		files := sample()
		files["workflow.graph.json"] = c.graph
		files["steps/ask.md"] = stepText("ask", c.kind)
		_, err := load(files)
		if c.want == "" && err != nil || c.want != "" && !strings.Contains(fmt.Sprint(fault.As(err).Details["errors"]), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestALongLoopIsFoundWithoutRecursion(t *testing.T) {
	g := &Graph{EntryNodeID: "n0"}
	const n = 20_000
	for i := range n {
		g.Nodes = append(g.Nodes, Node{ID: fmt.Sprint("n", i), Type: Step})
		g.Edges = append(g.Edges, Edge{From: fmt.Sprint("n", i), To: fmt.Sprint("n", (i+1)%n), Label: "next"})
	}
	g.index()
	if loops := g.loops(); len(loops) != 1 || len(loops[0]) != n {
		t.Errorf("found %d loops", len(loops))
	}
}

func TestTheOlderFormIsRefusedByName(t *testing.T) {
	noManifest := map[string]string{"bmm/workflows/plan/workflow.yaml": "name: plan"}
	entry := sample()
	entry["bmad.json"] = strings.ReplaceAll(entry["bmad.json"], `"workflow": "workflow.md"`, `"workflow": "workflow.yaml"`)
	for name, files := range map[string]map[string]string{"without a manifest": noManifest, "as the entry": entry} {
		_, err := load(files)
		if fault.CodeOf(err) != fault.ClassicPackage || !strings.Contains(fault.As(err).Protocol().Error(), "NotSupportedClassicWorkflow") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := load(map[string]string{"heating/bmad.json": manifestText})
	if err == nil || !strings.Contains(err.Error(), "heating/bmad.json") {
		t.Errorf("a package in a folder: %v", err)
	}
}

func TestStatesAreReadAndKnowTheirEnd(t *testing.T) {
	p, err := load(sample())
	if err != nil {
		t.Fatal(err)
	}
	g := p.Workflow("").Graph
	for text, want := range map[string]bool{
		"stepsCompleted: [ask]":                                                  false,
		"stepsCompleted: [ask, done]":                                            true,
		"stepsCompleted: []\nvariables: {workflowStatus: complete}":              false,
		"stepsCompleted: []\nvariables: {workflowStatus: waiting}":               false,
		"stepsCompleted: [nobody]\ndecisionLog:\n  - {from: a, to: b, label: c}": false,
	} {
		st, err := ReadState([]byte("---\nschemaVersion: \"1.1\"\nworkflowType: x\ncurrentNodeId: ' '\n" + text + "\n---\n"))
		if err != nil || st.Done(g) != want || g.Effective(st.CurrentNodeID) != "ask" {
			t.Errorf("%s: %+v, %v", text, st, err)
		}
	}
	if _, err := ReadState([]byte("---\ncurrentNodeId: 3\n---\n")); fault.CodeOf(err) != fault.SchemaValidation || len(fault.As(err).Details["errors"].([]Problem)) != 4 {
		t.Errorf("a wrong state: %v", err)
	}
	if _, err := ReadState([]byte("nothing")); fault.CodeOf(err) != fault.InvalidFrontmatter {
		t.Errorf("no state: %v", err)
	}
}
