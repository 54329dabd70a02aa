package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/aibridge/aibridge/commands/schema"
	"github.com/aibridge/aibridge/protocol"
)

// validate lists the faults of a rule against the model: unknown actions, types and
// attributes, each with the nearest known one, and all errors of types.
func (e *Engine) validate(r *rule) error {
	if errs := e.misspelt(r.policy); len(errs) > 0 {
		return fmt.Errorf("line %d: %w", r.position, errors.Join(errs...))
	}
	if e.foreign(r.policy) {
		return nil // speaks of an agent's commands, which the schema does not know
	}
	if err := e.validator.Policy("", (*ast.Policy)(r.policy.AST())); err != nil {
		return fmt.Errorf("line %d: %s", r.position, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// misspelt finds names that there are not.
func (e *Engine) misspelt(p *cedar.Policy) (errs []error) {
	words := entities{e.words}
	scope := (*ast.Policy)(p.AST())
	for _, uid := range uidsOf(scope) {
		errs = append(errs, words.check(uid)...)
	}
	for _, t := range typesOf(scope) {
		errs = append(errs, words.checkType(t)...)
	}
	inspect(p, func(n ast.IsNode) bool {
		switch n := n.(type) {
		case ast.NodeValue:
			if uid, ok := n.Value.(cedar.EntityUID); ok {
				errs = append(errs, words.check(uid)...)
			}
		case ast.NodeTypeIs:
			errs = append(errs, words.checkType(n.EntityType)...)
		case ast.NodeTypeIsIn:
			errs = append(errs, words.checkType(n.EntityType)...)
		case ast.NodeTypeAccess:
			errs = append(errs, checkPart(n.Arg, n.Value)...)
		case ast.NodeTypeHas:
			errs = append(errs, checkPart(n.Arg, n.Value)...)
		}
		return len(errs) < 10
	})
	return errs
}

// entities are the names that policies can give to entities.
type entities struct{ *vocabulary }

func (v entities) check(uid cedar.EntityUID) []error {
	if uid.Type != typeAction {
		return v.checkType(uid.Type)
	}
	name := string(uid.ID)
	if err := v.action(name); err != nil {
		return []error{err}
	}
	return nil
}

// action fails for an unknown name of an action, or of a group of actions.
func (v *vocabulary) action(name string) error {
	if v.has(name) || isExtension(name) {
		return nil
	}
	return v.unknownAction(name)
}

func (v *vocabulary) unknownAction(name string) error {
	err := unknown("action", name, v.names())
	if now := v.former(name); now != "" {
		return fmt.Errorf("%w; if an agent registers the command, it is %q", err, now)
	}
	return err
}

func (v entities) checkType(t cedar.EntityType) []error {
	types := append(v.resources(), typeRole, typeOperator, typeAgent, typeSkill, typeBridge, typeAction)
	if slices.Contains(types, t) {
		return nil
	}
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t)
	}
	return []error{unknown("entity type", string(t), names)}
}

// checkPart checks a name after "context." and the like.
func checkPart(of ast.IsNode, name cedar.String) []error {
	v, ok := of.(ast.NodeTypeVariable)
	if !ok {
		return nil
	}
	known := ofThing
	switch v.Name {
	case "context":
		known = ofContext
	case "principal", "resource":
	default:
		return nil
	}
	if _, ok := known[name]; ok {
		return nil
	}
	names := make([]string, 0, len(known))
	for n := range maps.Keys(known) {
		names = append(names, string(n))
	}
	slices.Sort(names)
	return []error{unknown("attribute of "+string(v.Name), string(name), names)}
}

func unknown(what, name string, names []string) error {
	if len(name) > 100 {
		name = name[:100]
	}
	if meant, ok := schema.Nearest(name, slices.Values(names)); ok {
		return fmt.Errorf("there is no %s %q: did you mean %q?", what, name, meant)
	}
	if len(names) <= 12 {
		return fmt.Errorf("there is no %s %q; there are %s", what, name, strings.Join(names, ", "))
	}
	return fmt.Errorf("there is no %s %q", what, name)
}

// foreign reports whether a policy speaks of commands that agents register.
func (e *Engine) foreign(p *cedar.Policy) bool {
	return slices.ContainsFunc(actionsOf(p), func(a string) bool { return !e.words.has(a) })
}

// doubts lists the oddities of a valid rule.
func (e *Engine) doubts(r *rule) (warnings []string) {
	for _, a := range actionsOf(r.policy) {
		if !e.words.has(a) {
			warnings = append(warnings, fmt.Sprintf("line %d: no command of the bridge has the action %q; it must be one that an agent registers", r.position, a))
		}
	}
	for _, uid := range uidsOf((*ast.Policy)(r.policy.AST())) {
		if name := string(uid.ID); uid.Type == typeRole && !slices.Contains(roles, name) {
			if meant, ok := schema.Nearest(name, slices.Values(roles)); ok {
				warnings = append(warnings, fmt.Sprintf("line %d: there is no role %q of the bridge's own: did you mean %q?", r.position, name, meant))
			}
		}
	}
	if r.policy.Effect() == cedar.Forbid && slices.Contains(actionsOf(r.policy), "policy") {
		warnings = append(warnings, fmt.Sprintf("line %d: administrators get at the policies whatever is forbidden", r.position))
	}
	return warnings
}

// roles are those that the bridge gives meaning to. Keys and tokens may carry
// any others.
var roles = []string{protocol.RoleAdministrator, protocol.RoleOperator, protocol.RoleRouteAgent, protocol.RoleEndAgent,
	protocol.RoleSkill, protocol.RoleObserver, protocol.RoleAnonymous}

// actionsOf lists the actions and groups that a policy names.
func actionsOf(p *cedar.Policy) (names []string) {
	take := func(uid cedar.EntityUID) {
		if uid.Type == typeAction {
			names = append(names, string(uid.ID))
		}
	}
	for _, uid := range uidsOf((*ast.Policy)(p.AST())) {
		take(uid)
	}
	inspect(p, func(n ast.IsNode) bool {
		if v, ok := n.(ast.NodeValue); ok {
			if uid, ok := v.Value.(cedar.EntityUID); ok {
				take(uid)
			}
		}
		return true
	})
	return names
}

// uidsOf lists the entities in the scope of a policy.
func uidsOf(p *ast.Policy) (uids []cedar.EntityUID) {
	for _, scope := range []ast.IsScopeNode{p.Principal, p.Action, p.Resource} {
		switch s := scope.(type) {
		case ast.ScopeTypeEq:
			uids = append(uids, s.Entity)
		case ast.ScopeTypeIn:
			uids = append(uids, s.Entity)
		case ast.ScopeTypeIsIn:
			uids = append(uids, s.Entity)
		case ast.ScopeTypeInSet:
			uids = append(uids, s.Entities...)
		}
	}
	return uids
}

// typesOf lists the entity types in the scope of a policy.
func typesOf(p *ast.Policy) (types []cedar.EntityType) {
	for _, scope := range []ast.IsScopeNode{p.Principal, p.Resource} {
		switch s := scope.(type) {
		case ast.ScopeTypeIs:
			types = append(types, s.Type)
		case ast.ScopeTypeIsIn:
			types = append(types, s.Type)
		}
	}
	return types
}
