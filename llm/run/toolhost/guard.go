package toolhost

import (
	"slices"
	"strings"

	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/llm/run/pack"
)

// guarded reports whether writes to a place pass the guard. Places that some
// system takes for the run's state or its log are refused.
func (h *Host) guarded(location mount.Location) (bool, error) {
	if location.Mount != mount.State {
		return false, nil
	}
	first, _, _ := strings.Cut(location.Path, "/")
	switch {
	case strings.EqualFold(first, logsFolder):
		return false, fault.Errorf(fault.Sandbox, "%s is the run's log, which only the engine writes", location).With("path", location.String())
	case location.String() == StatePath:
		return h.opts.Graph != nil, nil
	case strings.EqualFold(location.String(), StatePath):
		return false, fault.Errorf(fault.Sandbox, "%s differs from %s in case only", location, StatePath).With("path", location.String())
	}
	return false, nil
}

// An AllowedNext is a jump that is legal from where a run is.
type AllowedNext struct {
	To            string `json:"to"`
	Label         string `json:"label"`
	IsDefault     bool   `json:"isDefault"`
	ConditionText string `json:"conditionText,omitempty"`
}

// guard refuses a workflow.md that is none, that jumps where no edge leads, or
// that forgets completed steps.
func (h *Host) guard(before []byte, present bool, after []byte) error {
	next, err := pack.ReadState(after)
	if err != nil {
		return err
	}
	old := pack.State{}
	if present {
		if old, err = pack.ReadState(before); err != nil {
			e := fault.As(err)
			return fault.Errorf(e.Code, "%s as it is now is damaged, so no change of it can be checked: %s", StatePath, e.Message)
		}
	}
	return CheckTransition(h.opts.Graph, old, next)
}

// CheckTransition says why a run may not go from one state to another: jumps
// are legal along an edge from the effective current node only
// (E_INVALID_TRANSITION, with details.from, to and allowedNext), an end node
// is completed only where it is current, and stepsCompleted never shrinks and
// holds nodes of the graph only (E_SCHEMA_VALIDATION).
func CheckTransition(g *pack.Graph, before, after pack.State) error {
	from, to := g.Effective(before.CurrentNodeID), g.Effective(after.CurrentNodeID)
	if g.Node(to) == nil || from != to && !g.Legal(from, to) {
		return illegal(g, from, to, "no edge leads there")
	}
	for _, id := range before.StepsCompleted {
		if !slices.Contains(after.StepsCompleted, id) {
			return fault.Errorf(fault.SchemaValidation, "stepsCompleted may not shrink: %q was completed", id).
				With("errors", []pack.Problem{{Path: "stepsCompleted", Reason: "may not shrink: " + id + " is missing"}})
		}
	}
	for _, id := range after.StepsCompleted {
		if slices.Contains(before.StepsCompleted, id) {
			continue
		}
		n := g.Node(id)
		if n == nil {
			return fault.Errorf(fault.SchemaValidation, "stepsCompleted: there is no node %.100q", id).
				With("errors", []pack.Problem{{Path: "stepsCompleted", Reason: "there is no such node"}})
		}
		if n.Type == pack.End && id != to {
			return illegal(g, from, id, "an end node is completed only when it is the current one")
		}
	}
	return nil
}

func illegal(g *pack.Graph, from, to, why string) error {
	if len(to) > 200 {
		to = strings.ToValidUTF8(to[:200], "") + "…"
	}
	allowed := make([]AllowedNext, 0, 4)
	for _, e := range g.Next(from) {
		allowed = append(allowed, AllowedNext{To: e.To, Label: e.Label, IsDefault: e.IsDefault, ConditionText: e.ConditionText})
	}
	return fault.Errorf(fault.InvalidTransition, "invalid transition: %s → %s: %s", from, to, why).
		With("from", from).With("to", to).With("allowedNext", allowed)
}
