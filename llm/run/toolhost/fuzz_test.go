package toolhost

import (
	"slices"
	"testing"

	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/pack"
)

func FuzzGuard(f *testing.F) {
	f.Add([]byte(stateText), []byte(stateText), true)
	f.Add([]byte(stateText), []byte("---\nschemaVersion: 1.1\nworkflowType: x\ncurrentNodeId: choose\nstepsCompleted: [ask]\n---\n"), true)
	f.Add([]byte(""), []byte("---\nschemaVersion: \"1.1\"\nworkflowType: x\ncurrentNodeId: done\nstepsCompleted: [done]\n---\n"), false)
	g := workflowGraph(f)
	h := New(Options{Graph: g})
	f.Fuzz(func(t *testing.T, before, after []byte, present bool) {
		err := h.guard(before, present, after)
		switch fault.CodeOf(err) {
		case fault.InvalidFrontmatter, fault.SchemaValidation:
			return
		case fault.InvalidTransition:
			if fault.As(err).Details["allowedNext"] == nil {
				t.Fatal(err)
			}
			return
		case "":
		default:
			t.Fatal(err)
		}
		var old pack.State
		if present {
			if old, err = pack.ReadState(before); err != nil {
				t.Fatalf("built upon %q", before)
			}
		}
		now, err := pack.ReadState(after)
		if err != nil {
			t.Fatalf("let %q pass", after)
		}
		from, to := g.Effective(old.CurrentNodeID), g.Effective(now.CurrentNodeID)
		if g.Node(to) == nil || from != to && !g.Legal(from, to) {
			t.Fatalf("let a jump from %q to %q pass", from, to)
		}
		for _, id := range old.StepsCompleted {
			if !slices.Contains(now.StepsCompleted, id) {
				t.Fatalf("let %q be forgotten", id)
			}
		}
		if now.Done(g) && !old.Done(g) && to != "done" {
			t.Fatalf("let the end be completed in %q", to)
		}
	})
}
