package pack

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/frontmatter"
	"github.com/aibridge/aibridge/llm/run/mount"
)

// ManifestFile is the file of a package's manifest.
const ManifestFile = "bmad.json"

// Load reads a package of files by their paths. The contents must not be changed any
// more. The error is PACKAGE_INVALID, with details.errors that name file and path, or
// NotSupportedClassicWorkflow.
func Load(files map[string][]byte) (*Package, error) {
	l := &loader{p: &Package{files: maps.Clone(files)}}
	if err := l.manifest(); err != nil {
		return nil, err
	}
	l.agents()
	l.workflows()
	l.warnOfMenus()
	if l.problems != nil {
		return nil, refusal(fault.PackageInvalid, "the package is not valid", l.problems)
	}
	return l.p, nil
}

type loader struct {
	p        *Package
	problems []Problem
}

func (l *loader) add(file, path, format string, args ...any) {
	l.problems = append(l.problems, Problem{File: file, Path: path, Reason: fmt.Sprintf(format, args...)})
}

func (l *loader) manifest() error {
	text, ok := l.p.files[ManifestFile]
	if !ok {
		return l.noManifest()
	}
	if problems := readJSON(manifestShape, ManifestFile, text, &l.p.Manifest); problems != nil {
		return refusal(fault.PackageInvalid, "the package is not valid", problems)
	}
	m := &l.p.Manifest
	if isClassic(m.Entry.Workflow) {
		return classic(m.Entry.Workflow)
	}
	for _, w := range m.Workflows {
		if isClassic(w.Workflow) {
			return classic(w.Workflow)
		}
	}
	return nil
}

// noManifest is the error of a package without a manifest. It names the likely mistake.
func (l *loader) noManifest() error {
	paths := slices.Sorted(maps.Keys(l.p.files))
	for _, p := range paths {
		if path.Base(p) == ManifestFile {
			return refusal(fault.PackageInvalid, "the package is not valid", []Problem{{File: ManifestFile,
				Reason: fmt.Sprintf("is missing; there is %s: the package must hold what is in that folder, not the folder", p)}})
		}
	}
	for _, p := range paths {
		if isClassic(p) {
			return classic(p)
		}
	}
	return refusal(fault.PackageInvalid, "the package is not valid", []Problem{{File: ManifestFile, Reason: "is missing"}})
}

// isClassic reports whether a path is that of a workflow of the older form.
func isClassic(p string) bool {
	switch strings.ToLower(path.Base(p)) {
	case "workflow.yaml", "workflow.yml", "workflow.xml":
		return true
	}
	return false
}

func classic(file string) error {
	return fault.Errorf(fault.ClassicPackage, "%s is a workflow of the older form; packages of format 1.1 with workflow.md and workflow.graph.json are understood", file).
		With("errors", []Problem{{File: file, Reason: "is a workflow of the older form"}})
}

// file returns a file that another one refers to. The name is relative to the root of
// the package.
func (l *loader) file(from, at, name string) (string, []byte, bool) {
	clean, reason := mount.Clean(name)
	if reason != "" || strings.HasPrefix(name, "/") {
		l.add(from, at, "%q is no path in the package", name)
		return "", nil, false
	}
	text, ok := l.p.files[clean]
	if !ok {
		l.add(from, at, "there is no file %q in the package; names count from its root", name)
	}
	return clean, text, ok
}

func (l *loader) agents() {
	file, text, ok := l.file(ManifestFile, "entry.agents", l.p.Manifest.Entry.Agents)
	if !ok {
		return
	}
	var list struct {
		Agents []Agent `json:"agents"`
	}
	if problems := readJSON(agentsShape, file, text, &list); problems != nil {
		l.problems = append(l.problems, problems...)
		return
	}
	l.p.Agents = list.Agents
	seen := make(map[string]int)
	for i, a := range list.Agents {
		if first, ok := seen[a.ID]; ok {
			l.add(file, fmt.Sprintf("agents[%d].id", i), "%q is the id of agents[%d] already", a.ID, first)
		} else {
			seen[a.ID] = i
		}
	}
}

// workflows reads the entry and the workflows of the manifest.
func (l *loader) workflows() {
	m := &l.p.Manifest
	if !slices.ContainsFunc(m.Workflows, func(w WorkflowEntry) bool { return w.Workflow == m.Entry.Workflow }) {
		l.workflow("entry", WorkflowEntry{ID: m.Entry.Workflow, Workflow: m.Entry.Workflow, Graph: m.Entry.Graph})
	}
	seen := make(map[string]int)
	for i, w := range m.Workflows {
		at := fmt.Sprintf("workflows[%d]", i)
		if first, ok := seen[w.ID]; ok {
			l.add(ManifestFile, at+".id", "%q is the id of workflows[%d] already", w.ID, first)
			continue
		}
		seen[w.ID] = i
		if w.Workflow == m.Entry.Workflow && w.Graph != m.Entry.Graph {
			l.add(ManifestFile, at+".graph", "is %q, but entry.graph is %q for the same workflow", w.Graph, m.Entry.Graph)
		}
		l.workflow(at, w)
	}
	slices.SortStableFunc(l.p.Workflows, func(a, b *Workflow) int {
		return order(a.WorkflowEntry.Workflow == m.Entry.Workflow, b.WorkflowEntry.Workflow == m.Entry.Workflow)
	})
}

// order compares two booleans, true first.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func (l *loader) workflow(at string, entry WorkflowEntry) {
	w := &Workflow{WorkflowEntry: entry, Steps: make(map[string]StepFile), Graph: &Graph{}}
	graphFile, graphText, haveGraph := l.file(ManifestFile, at+".graph", entry.Graph)
	stateFile, stateText, haveState := l.file(ManifestFile, at+".workflow", entry.Workflow)
	if !haveGraph || !haveState {
		return
	}
	if problems := readJSON(graphShape, graphFile, graphText, w.Graph); problems != nil {
		l.problems = append(l.problems, problems...)
		return
	}
	w.WorkflowEntry.Graph, w.WorkflowEntry.Workflow, w.Text = graphFile, stateFile, stateText
	w.Graph.index()
	problems, warnings := w.Graph.check(graphFile)
	l.problems = append(l.problems, problems...)
	l.p.Warnings = append(l.p.Warnings, warnings...)
	l.state(w)
	for i := range w.Graph.Nodes {
		l.step(w, i)
	}
	l.p.Workflows = append(l.p.Workflows, w)
}

func (l *loader) state(w *Workflow) {
	file := w.WorkflowEntry.Workflow
	doc, err := frontmatter.Parse(w.Text)
	if err != nil {
		l.add(file, "", "%s", fault.As(err).Message)
		return
	}
	if problems := readMeta(stateShape, file, doc, &w.State); problems != nil {
		l.problems = append(l.problems, problems...)
		return
	}
	if id := w.Graph.Effective(w.State.CurrentNodeID); w.Graph.Node(id) == nil {
		l.add(file, "currentNodeId", "there is no node %q in %s", id, w.WorkflowEntry.Graph)
	}
}

// step reads the file of a node.
func (l *loader) step(w *Workflow, i int) {
	n := &w.Graph.Nodes[i]
	at := fmt.Sprintf("nodes[%d]", i)
	graphFile := w.WorkflowEntry.Graph
	if n.AgentID != "" && l.p.Agents != nil && l.p.Agent(n.AgentID) == nil {
		l.add(graphFile, at+".agentId", "there is no agent %q in %s", n.AgentID, l.p.Manifest.Entry.Agents)
	}
	file, text, ok := l.file(graphFile, at+".file", n.File)
	if !ok {
		return
	}
	n.File = file
	doc, err := frontmatter.Parse(text)
	if err != nil {
		l.add(file, "", "%s", fault.As(err).Message)
		return
	}
	if _, step := doc.Text("nodeId"); n.Type == Subworkflow && !step {
		l.subworkflow(w, n, doc)
		return
	}
	var meta StepMeta
	if problems := readMeta(stepShape, file, doc, &meta); problems != nil {
		l.problems = append(l.problems, problems...)
		return
	}
	if meta.NodeID != n.ID {
		l.add(file, "nodeId", "is %q, but %s says %s.id is %q", meta.NodeID, graphFile, at, n.ID)
	}
	if meta.Type != n.Type {
		l.add(file, "type", "is %q, but %s says %s.type is %q", meta.Type, graphFile, at, n.Type)
	}
	l.compare(w, n, file, &meta)
	w.Steps[n.ID] = StepFile{Path: file, Meta: meta, Body: string(doc.Body())}
}

// subworkflow reads the file of a node that is the workflow.md of another workflow.
func (l *loader) subworkflow(w *Workflow, n *Node, doc *frontmatter.Document) {
	var st State
	if problems := readMeta(stateShape, n.File, doc, &st); problems != nil {
		l.problems = append(l.problems, problems...)
		return
	}
	w.Steps[n.ID] = StepFile{Path: n.File, Meta: StepMeta{SchemaVersion: st.SchemaVersion, NodeID: n.ID, Type: Subworkflow}, Body: string(doc.Body())}
}

// compare adds warnings of differences between a step and the graph, which takes
// precedence.
func (l *loader) compare(w *Workflow, n *Node, file string, meta *StepMeta) {
	for i, t := range meta.Transitions {
		if !slices.ContainsFunc(w.Graph.Next(n.ID), func(e Edge) bool { return e.To == t.To && e.Label == t.Label }) {
			l.p.Warnings = append(l.p.Warnings, fmt.Sprintf("%s: transitions[%d] to %q (%s) is no edge of %s, which counts", file, i, t.To, t.Label, w.WorkflowEntry.Graph))
		}
	}
	if meta.AgentID != "" && n.AgentID != "" && meta.AgentID != n.AgentID {
		l.p.Warnings = append(l.p.Warnings, fmt.Sprintf("%s: agentId is %q, but %s says %q, which counts", file, meta.AgentID, w.WorkflowEntry.Graph, n.AgentID))
	}
}
