package toolhost

import (
	"slices"
	"strings"

	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/llm/run/pack"
)

// guarded reports whether writes to a place pass the guard. It refuses names that equal
// those of the run's state or log on some systems.
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

// An AllowedNext is a legal jump from the position of a run.
type AllowedNext struct {
	To            string `json:"to"`
	Label         string `json:"label"`
	IsDefault     bool   `json:"isDefault"`
	ConditionText string `json:"conditionText,omitempty"`
}

// guard refuses an invalid workflow.md, an illegal jump, and the removal of completed
// steps.
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

// CheckTransition returns the error of an illegal change of state. Jumps must follow an
// edge from the effective current node, and an end node can be completed only while it
// is current (E_INVALID_TRANSITION, with details.from, to and allowedNext);
// stepsCompleted must not shrink and holds only nodes of the graph
// (E_SCHEMA_VALIDATION).
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
