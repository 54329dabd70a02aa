package policy

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

var policyPut = commands.Spec{
	Name:    "policy.put",
	Summary: "Put policies in force or on trial, or replace those of the same name.",
	Effect:  commands.Write,
	Action:  "policy:put",
	Errors:  []protocol.Code{protocol.LimitReached, protocol.RevisionConflict},
	Example: `{"name":"doors","policy":"forbid (principal, action == Action::\"skill:invoke\", resource == Skill::\"front-door\") unless { principal in Role::\"operator\" };"}`,
}

// PutParams are the params of policy.put.
type PutParams struct {
	Name     string `json:"name" len:"1-64" pattern:"^[a-z0-9][a-z0-9._-]*$" doc:"name of the text; its policies are called name/@id"`
	Policy   string `json:"policy" len:"1-65536" doc:"policies in Cedar"`
	Mode     Mode   `json:"mode,omitempty" enum:"enforce,observe" default:"enforce" doc:"observe puts them on trial: they judge what happens beside those in force, in place of those of the same name, and decide nothing; policy.report tells what they would have decided otherwise"`
	Revision uint64 `json:"revision,omitempty" doc:"of the text to be replaced, if it must be this one"`
}

// Target implements [commands.Targeter].
func (p PutParams) Target() commands.Resource { return target(p.Name) }

// PutResult is the result of policy.put.
type PutResult struct {
	Name     string   `json:"name" doc:"name of the text, with trial: before it if it is on trial"`
	Policies []string `json:"policies" doc:"ids of the policies"`
	Revision uint64   `json:"revision" doc:"number of the stored version of the text; expected by revision of policy.put"`
}

// Put stores a text and puts it in force. One that is broken changes nothing.
func (s *Service) Put(ctx context.Context, call *commands.Call, p PutParams) (PutResult, error) {
	if err := s.Engine.checkName(p.Name); err != nil {
		return PutResult{}, err
	}
	_, warnings, err := s.Engine.Check(p.Policy)
	if err != nil {
		return PutResult{}, invalid("policy", err)
	}
	from := Source{p.Mode.kind(), p.Name}
	rules, err := parse(from.prefix(), p.Policy, from)
	if err != nil {
		return PutResult{}, invalid("policy", err)
	}
	if err := s.Engine.roomFor(from, len(rules)); err != nil {
		return PutResult{}, err
	}
	revision, err := s.store(ctx, s.table(from.Kind), call, p)
	if err != nil {
		return PutResult{}, err
	}
	for _, w := range warnings {
		call.Warn("%s", w)
	}
	result := PutResult{Name: from.prefix(), Revision: revision}
	for _, r := range rules {
		result.Policies = append(result.Policies, r.id)
	}
	return result, nil
}

func (s *Service) store(ctx context.Context, table records.Table[Record], call *commands.Call, p PutParams) (revision uint64, err error) {
	record := &Record{Name: p.Name, Text: p.Policy, By: call.Principal.ID, At: s.Engine.opts.Now().UTC()}
	_, revision, err = records.Change(ctx, table, p.Name, func(_ *Record, held uint64) (*Record, error) {
		if p.Revision != 0 && p.Revision != held {
			return nil, protocol.Errorf(protocol.RevisionConflict, "policy %q has revision %d", p.Name, held).
				With("expected", p.Revision).With("revision", held)
		}
		return record, nil
	})
	return revision, err
}

// roomFor refuses a text with which there would be too many policies.
func (e *Engine) roomFor(from Source, n int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	texts := 0
	for other := range e.texts {
		if other.Kind == from.Kind && other != from {
			texts++
		}
	}
	if texts >= mostRecords || e.count()-len(e.rulesOf(from))+n > mostRules {
		return protocol.Errorf(protocol.LimitReached, "there are too many policies").With("limit", mostRules)
	}
	return nil
}
