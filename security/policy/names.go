package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/aibridge/aibridge/commands/schema"
)

// KnowsRole reports whether a role is the bridge's own or a loaded policy
// speaks of it. If not, meant is the name that is probably meant, "" for none.
func (e *Engine) KnowsRole(name string) (meant string, known bool) {
	all := e.roleNames()
	if slices.Contains(all, name) {
		return "", true
	}
	meant, _ = schema.Nearest(name, slices.Values(all))
	return meant, false
}

// KnowsScope reports whether a scope, such as skill:invoke or skill:*, names a
// known action or one that agents may register. If not, meant is the name that is
// probably meant, "" for none.
func (e *Engine) KnowsScope(scope string) (meant string, known bool) {
	if scope == "*" || isExtension(scope) {
		return "", true
	}
	if _, known := e.words.actions[scope]; known {
		return "", true
	}
	scopes := slices.Sorted(maps.Keys(e.words.actions))
	for _, action := range scopes {
		if family := familyOf(action) + ":*"; !slices.Contains(scopes, family) {
			scopes = append(scopes, family)
		}
	}
	scopes = append(scopes, groupExtension+":*")
	if strings.HasSuffix(scope, ":*") && slices.Contains(scopes, scope) {
		return "", true
	}
	meant, _ = schema.Nearest(scope, slices.Values(scopes))
	return meant, false
}

// roleNames are the roles that the bridge gives meaning to, and those that
// policies speak of.
func (e *Engine) roleNames() []string {
	names := make(map[string]bool)
	for _, name := range roles {
		names[name] = true
	}
	take := func(uid cedar.EntityUID) {
		if uid.Type == typeRole {
			names[string(uid.ID)] = true
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.texts {
		for _, r := range l.rules {
			for _, uid := range uidsOf((*ast.Policy)(r.policy.AST())) {
				take(uid)
			}
			inspect(r.policy, func(n ast.IsNode) bool {
				if v, ok := n.(ast.NodeValue); ok {
					takeAll(v.Value, take)
				}
				return true
			})
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// takeAll gives the entities in a value to take.
func takeAll(value cedar.Value, take func(cedar.EntityUID)) {
	switch v := value.(type) {
	case cedar.EntityUID:
		take(v)
	case cedar.Set:
		for item := range v.All() {
			takeAll(item, take)
		}
	}
}
