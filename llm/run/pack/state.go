package pack

import (
	"slices"
	"strings"
)

// Effective is the node of a currentNodeId: the entry if it is blank.
func (g *Graph) Effective(current string) string {
	if id := strings.TrimSpace(current); id != "" {
		return id
	}
	return g.EntryNodeID
}

// Done reports whether a workflow is complete: an end node is completed. A variable,
// which no guard checks, completes a workflow only if its graph allows it, see
// [ByVariable].
func (s State) Done(g *Graph) bool {
	if status, ok := s.Variables["workflowStatus"].(string); ok && status == "complete" && g.endsByVariable() {
		return true
	}
	return slices.ContainsFunc(s.StepsCompleted, func(id string) bool {
		n := g.Node(id)
		return n != nil && n.Type == End
	})
}
