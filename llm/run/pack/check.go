package pack

import (
	"fmt"
	"slices"
	"strings"
)

// check lists the faults of a graph beyond its shape, and its oddities.
func (g *Graph) check(file string) (problems []Problem, warnings []string) {
	add := func(path, format string, args ...any) {
		problems = append(problems, Problem{File: file, Path: path, Reason: fmt.Sprintf(format, args...)})
	}
	seen := make(map[string]int, len(g.Nodes))
	for i, n := range g.Nodes {
		if first, ok := seen[n.ID]; ok {
			add(fmt.Sprintf("nodes[%d].id", i), "%q is the id of nodes[%d] already", n.ID, first)
			continue
		}
		seen[n.ID] = i
	}
	if g.Node(g.EntryNodeID) == nil {
		add("entryNodeId", "there is no node %q", g.EntryNodeID)
	}
	g.checkEdges(add)
	if problems != nil {
		return problems, nil // the other checks need a consistent graph
	}
	reached := g.reach(g.EntryNodeID)
	for i, n := range g.Nodes {
		if !reached[n.ID] {
			add(fmt.Sprintf("nodes[%d]", i), "%q cannot be reached from the entry node %q", n.ID, g.EntryNodeID)
		}
	}
	g.checkLoops(add)
	return problems, g.oddities(file)
}

func (g *Graph) checkEdges(add func(path, format string, args ...any)) {
	type choice struct{ from, to, label string }
	seen := make(map[choice]int, len(g.Edges))
	ids := make(map[string]int)
	for i, e := range g.Edges {
		at := fmt.Sprintf("edges[%d]", i)
		from := g.Node(e.From)
		if from == nil {
			add(at+".from", "there is no node %q", e.From)
		}
		if g.Node(e.To) == nil {
			add(at+".to", "there is no node %q", e.To)
		}
		if from != nil && from.Type == End {
			add(at+".from", "no edge may leave the end node %q", e.From)
		}
		c := choice{e.From, e.To, e.Label}
		if first, ok := seen[c]; ok {
			add(at, "is edges[%d] again", first)
		} else {
			seen[c] = i
		}
		if first, ok := ids[e.ID]; ok && e.ID != "" {
			add(at+".id", "%q is the id of edges[%d] already", e.ID, first)
		} else {
			ids[e.ID] = i
		}
	}
}

// reach returns the nodes that can be reached from a node, itself included.
func (g *Graph) reach(from string) map[string]bool {
	reached := map[string]bool{from: true}
	for todo := []string{from}; len(todo) > 0; {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, i := range g.next[id] {
			if to := g.Edges[i].To; !reached[to] {
				reached[to] = true
				todo = append(todo, to)
			}
		}
	}
	return reached
}

// checkLoops refuses loops without an end: each must hold a decision node, and an edge
// that leads out of it.
func (g *Graph) checkLoops(add func(path, format string, args ...any)) {
	for _, loop := range g.loops() {
		decides, leaves := false, false
		for _, id := range loop {
			decides = decides || g.Node(id).Type == Decision
			for _, i := range g.next[id] {
				leaves = leaves || !slices.Contains(loop, g.Edges[i].To)
			}
		}
		names := strings.Join(loop[:min(len(loop), 10)], ", ")
		if !decides {
			add("edges", "the loop of %s has no decision node to end it", names)
		}
		if !leaves {
			add("edges", "the loop of %s has no edge that leaves it", names)
		}
	}
}

// loops returns the loops of the graph: its strongly connected components with a cycle,
// by Tarjan's algorithm without recursion.
func (g *Graph) loops() [][]string {
	t := tarjan{graph: g, index: make(map[string]int), low: make(map[string]int), on: make(map[string]bool)}
	for _, n := range g.Nodes {
		if _, seen := t.index[n.ID]; !seen {
			t.visit(n.ID)
		}
	}
	return t.found
}

type tarjan struct {
	graph *Graph
	index map[string]int // order of discovery
	low   map[string]int // the earliest node known to be in the same component
	on    map[string]bool
	stack []string
	found [][]string
}

// A frame is a node whose edges are being followed.
type frame struct {
	id   string
	edge int
}

func (t *tarjan) enter(id string) frame {
	t.index[id], t.low[id] = len(t.index), len(t.index)
	t.stack = append(t.stack, id)
	t.on[id] = true
	return frame{id: id}
}

func (t *tarjan) visit(id string) {
	for frames := []frame{t.enter(id)}; len(frames) > 0; {
		f := &frames[len(frames)-1]
		edges := t.graph.next[f.id]
		if f.edge < len(edges) {
			to := t.graph.Edges[edges[f.edge]].To
			f.edge++
			if _, seen := t.index[to]; !seen {
				frames = append(frames, t.enter(to))
			} else if t.on[to] {
				t.low[f.id] = min(t.low[f.id], t.index[to])
			}
			continue
		}
		if t.low[f.id] == t.index[f.id] {
			t.leave(f.id)
		}
		frames = frames[:len(frames)-1]
		if len(frames) > 0 {
			above := frames[len(frames)-1].id
			t.low[above] = min(t.low[above], t.low[f.id])
		}
	}
}

// leave removes a component from the stack, and records it if it is a loop.
func (t *tarjan) leave(root string) {
	at := slices.Index(t.stack, root)
	component := slices.Clone(t.stack[at:])
	t.stack = t.stack[:at]
	for _, id := range component {
		t.on[id] = false
	}
	if len(component) > 1 || t.graph.Legal(root, root) {
		slices.Sort(component)
		t.found = append(t.found, component)
	}
}

// oddities returns warnings for the author of the graph, of faults that do not prevent
// a run.
func (g *Graph) oddities(file string) (warnings []string) {
	ends := g.hasEnd()
	switch {
	case !ends && g.endsByVariable():
		warnings = append(warnings, file+": there is no end node: a run is complete only when it sets variables.workflowStatus to complete")
	case !ends:
		warnings = append(warnings, file+": there is no end node, and metadata.completedBy is endNode: a run is never complete")
	}
	for _, n := range g.Nodes {
		defaults := 0
		for _, i := range g.next[n.ID] {
			if g.Edges[i].IsDefault {
				defaults++
			}
		}
		switch {
		case defaults > 1:
			warnings = append(warnings, fmt.Sprintf("%s: node %q has %d default edges", file, n.ID, defaults))
		case ends && n.Type != End && len(g.next[n.ID]) == 0:
			warnings = append(warnings, fmt.Sprintf("%s: node %q is no end node, and no edge leaves it", file, n.ID))
		}
	}
	return warnings
}
