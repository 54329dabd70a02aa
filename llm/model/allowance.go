package model

import (
	"cmp"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// perMinute is the window of the rate of a key.
const perMinute = "minute"

// An access is the models that a principal may ask.
type access struct {
	space  string
	models []string // names and aliases; none limits nothing
}

// accessOf are the models that a principal may ask in a space.
func (s *Service) accessOf(who *protocol.Principal, space string) access {
	if a := s.budgets.allowanceOf(keyOfPrincipal(who)); a != nil {
		return access{space, a.Models}
	}
	return access{space: space}
}

// allows reports whether a model may be asked.
func (a *access) allows(m *model) bool {
	if !m.allows(a.space) {
		return false
	}
	named := func(name string) bool { return slices.Contains(a.models, name) }
	return len(a.models) == 0 || named(m.Name) || slices.ContainsFunc(m.Aliases, named)
}

// keyOfPrincipal is the id of the API key that a principal has shown, "" for
// another credential.
func keyOfPrincipal(who *protocol.Principal) string {
	if who.Method != protocol.MethodAPIKey {
		return ""
	}
	return who.Credential
}

// allowanceOf is the allowance of a key, nil if nothing limits it.
func (t *treasury) allowanceOf(key string) *protocol.Allowance {
	if t.allowance == nil || key == "" {
		return nil
	}
	return t.allowance(key)
}

// allowed are the budgets that a key has of its own.
func (t *treasury) allowed(key string) (budgets []Budget) {
	a := t.allowanceOf(key)
	if a == nil {
		return nil
	}
	if a.Tokens > 0 || a.Cost > 0 || a.Requests > 0 {
		budgets = append(budgets, Budget{Per: perKey, Of: key, Window: cmp.Or(a.Window, "month"), Tokens: a.Tokens, Cost: a.Cost, Requests: a.Requests})
	}
	if a.PerMinute > 0 {
		budgets = append(budgets, Budget{Per: perKey, Of: key, Window: perMinute, Requests: a.PerMinute})
	}
	return budgets
}

// over are the budgets that a principal may be under: those of the configuration,
// and those of its key.
func (t *treasury) over(who *protocol.Principal) []Budget {
	return slices.Concat(t.budgets, t.allowed(keyOfPrincipal(who)))
}

// overPurse are the budgets that a purse may be of.
func (t *treasury) overPurse(key string) []Budget {
	return slices.Concat(t.budgets, t.allowed(keyOfPurse(key)))
}

// keyOfPurse is the API key whose spending is kept under a key, "" if it is
// somebody else's.
func keyOfPurse(key string) string {
	text, ok := strings.CutPrefix(key, perKey+"/")
	if !ok {
		return ""
	}
	_, text, _ = strings.Cut(text, "#")
	id, _, _ := strings.Cut(text, "/")
	return id
}
