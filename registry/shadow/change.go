package shadow

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// maxSkills bounds the skills of an agent that have state.
const maxSkills = 32

// A step is one change of a document.
type step struct {
	patch   object
	replace bool    // the document becomes the patch
	expect  *uint64 // the version that it must have, nil for any
	by      string
}

// change applies steps to a document by one write, in order. The error of a step is
// returned at its index and stops no other.
func (s *Service) change(ctx context.Context, at *place, skill Skill, steps []step) (*Record, []error, error) {
	var wrong []error
	r, _, err := records.Change(ctx, s.Table, at.key(), func(old *Record, _ uint64) (*Record, error) {
		present := at.empty()
		if old != nil && old.Born == at.Born {
			copied := *old
			present = &copied
		}
		before := present.Version
		wrong = make([]error, len(steps))
		for i := range steps {
			wrong[i] = s.step(at, present, skill, &steps[i])
		}
		if present.Version == before {
			return old, nil
		}
		return present, nil
	})
	switch {
	case err != nil:
		return nil, nil, err
	case r == nil || r.Born != at.Born:
		r = at.empty()
	}
	return r, wrong, nil
}

// step makes one change of a record that the caller alone holds. A patch that
// changes nothing leaves it as it is.
func (s *Service) step(at *place, r *Record, skill Skill, step *step) error {
	if step.expect != nil && *step.expect != r.Version {
		return protocol.Errorf(protocol.RevisionConflict, "the %s state of %s has version %d, not %d; read it again and repeat the change",
			at.side, at.skill, r.Version, *step.expect).
			With("param_name", "version").With("expected", *step.expect).With("version", r.Version)
	}
	if r.Version == 0 && s.index.count(at.ref(), at.skill) >= maxSkills {
		return protocol.Errorf(protocol.LimitReached, "agent %q has state of %d skills already", at.ID, maxSkills).With("limit", maxSkills)
	}
	document := r.document()
	from := document
	if step.replace {
		from = object{}
	}
	merged := merge(from, step.patch)
	if same(merged, document) {
		return nil
	}
	state := render(merged)
	if len(state) > MaxBytes {
		return tooLarge(len(state))
	}
	if skill.Check != nil {
		if path, reason := skill.Check("state", state); reason != "" {
			return protocol.InvalidParam(path, reason)
		}
	}
	r.Version, r.State, r.UpdatedAt, r.UpdatedBy = r.Version+1, state, s.Now().UnixMilli(), step.by
	r.note(render(step.patch))
	return nil
}

// readOnly is the path of a member that a patch sets and that a schema says is
// the agent's alone (readOnly), "" if there is none.
func readOnly(schema json.RawMessage, patch object, path string) string {
	var node struct {
		ReadOnly   bool                       `json:"readOnly"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if len(schema) == 0 || json.Unmarshal(schema, &node) != nil {
		return ""
	}
	if node.ReadOnly {
		return path
	}
	for name, v := range patch {
		inner, _ := v.(object)
		if found := readOnly(node.Properties[name], inner, path+"."+name); found != "" {
			return found
		}
	}
	return ""
}
