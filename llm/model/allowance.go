package model

import (
	"cmp"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// perMinute is the window of the rate of a key.
const perMinute = "minute"

// An access is the set of models that a principal may ask.
type access struct {
	space  string
	models []string // names and aliases; empty for all
}

// accessOf returns the access of a principal in a space.
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

// keyOfPrincipal is the id of a principal's API key, "" for another credential.
func keyOfPrincipal(who *protocol.Principal) string {
	if who.Method != protocol.MethodAPIKey {
		return ""
	}
	return who.Credential
}

// allowanceOf is the allowance of a key, nil for none.
func (t *treasury) allowanceOf(key string) *protocol.Allowance {
	if t.allowance == nil || key == "" {
		return nil
	}
	return t.allowance(key)
}

// allowed returns the budgets in the allowance of a key.
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

// over returns the budgets that may bound a principal: those of the configuration, and
// those of its key.
func (t *treasury) over(who *protocol.Principal) []Budget {
	return slices.Concat(t.budgets, t.allowed(keyOfPrincipal(who)))
}

// overPurse returns the budgets that may count a purse.
func (t *treasury) overPurse(key string) []Budget {
	return slices.Concat(t.budgets, t.allowed(keyOfPurse(key)))
}

// keyOfPurse is the id of the API key in the key of a purse, "" for the purse of
// another kind of owner.
func keyOfPurse(key string) string {
	text, ok := strings.CutPrefix(key, perKey+"/")
	if !ok {
		return ""
	}
	_, text, _ = strings.Cut(text, "#")
	id, _, _ := strings.Cut(text, "/")
	return id
}
