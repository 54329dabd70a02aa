package pack

import (
	"encoding/json"
	"slices"
)

// A NodeType is the kind of a [Node].
type NodeType string

// The types of nodes.
const (
	Step        NodeType = "step"
	Decision    NodeType = "decision"
	Merge       NodeType = "merge"
	End         NodeType = "end"
	Subworkflow NodeType = "subworkflow"
)

// A Node is one step of a workflow.
type Node struct {
	ID          string   `json:"id"`
	Type        NodeType `json:"type"`
	File        string   `json:"file"` // path in the package
	Title       string   `json:"title,omitempty"`
	Description string   `json:"description,omitempty"`
	AgentID     string   `json:"agentId,omitempty"`
	Inputs      []string `json:"inputs,omitempty"`
	Outputs     []string `json:"outputs,omitempty"`
}

// An Edge is a legal jump.
type Edge struct {
	ID            string          `json:"id,omitempty"`
	From          string          `json:"from"`
	To            string          `json:"to"`
	Label         string          `json:"label"`
	IsDefault     bool            `json:"isDefault,omitempty"`
	ConditionText string          `json:"conditionText,omitempty"`
	ConditionExpr json.RawMessage `json:"conditionExpr,omitempty"` // JSONLogic; not evaluated
}

// A Graph holds the nodes and the legal jumps of a workflow. It is immutable once it
// was read.
type Graph struct {
	SchemaVersion string        `json:"schemaVersion"`
	EntryNodeID   string        `json:"entryNodeId"`
	Nodes         []Node        `json:"nodes"`
	Edges         []Edge        `json:"edges"`
	Metadata      GraphMetadata `json:"metadata"`

	nodes map[string]int   // id → index in Nodes
	next  map[string][]int // from → indexes in Edges, in their order
}

// GraphMetadata is the metadata of a graph; unknown fields are ignored.
type GraphMetadata struct {
	CompletedBy Completion `json:"completedBy,omitempty"`
}

// A Completion is the condition that completes a run.
type Completion string

// The completions.
const (
	ByEndNode  Completion = "endNode"  // an end node in stepsCompleted, which the guard checks; the default
	ByVariable Completion = "variable" // also variables.workflowStatus: complete, which may be set at any node
)

// endsByVariable reports whether variables.workflowStatus completes a run: the graph
// declares so, or declares nothing and has no end node.
func (g *Graph) endsByVariable() bool {
	return g.Metadata.CompletedBy == ByVariable || g.Metadata.CompletedBy == "" && !g.hasEnd()
}

// hasEnd reports whether there is an end node.
func (g *Graph) hasEnd() bool {
	return slices.ContainsFunc(g.Nodes, func(n Node) bool { return n.Type == End })
}

// Node finds a node, nil if there is none.
func (g *Graph) Node(id string) *Node {
	if i, ok := g.nodes[id]; ok {
		return &g.Nodes[i]
	}
	return nil
}

// Next lists the edges that leave a node, in their order in the file.
func (g *Graph) Next(id string) []Edge {
	edges := make([]Edge, 0, len(g.next[id]))
	for _, i := range g.next[id] {
		edges = append(edges, g.Edges[i])
	}
	return edges
}

// Legal reports whether an edge leads from one node to another.
func (g *Graph) Legal(from, to string) bool {
	for _, i := range g.next[from] {
		if g.Edges[i].To == to {
			return true
		}
	}
	return false
}

// index builds the indexes of the graph.
func (g *Graph) index() {
	g.nodes = make(map[string]int, len(g.Nodes))
	g.next = make(map[string][]int, len(g.Nodes))
	for i := range g.Nodes {
		g.nodes[g.Nodes[i].ID] = i
	}
	for i := range g.Edges {
		g.next[g.Edges[i].From] = append(g.next[g.Edges[i].From], i)
	}
}
