package security

import (
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// ScopeAllows reports whether the scopes of a principal let it do an action,
// such as skill:invoke, regardless of policy. A scope is an action, all of a family
// (skill:*), or everything (*); a principal without scopes is not limited.
func ScopeAllows(who *protocol.Principal, action string) bool {
	if len(who.Scopes) == 0 {
		return true
	}
	for _, scope := range who.Scopes {
		if scopeCovers(scope, action) {
			return true
		}
	}
	return false
}

// scopeCovers reports whether one scope covers an action, or another scope.
func scopeCovers(scope, action string) bool {
	if scope == "*" || scope == action {
		return true
	}
	family, ok := strings.CutSuffix(scope, ":*")
	return ok && len(action) > len(family)+1 && action[:len(family)] == family && action[len(family)] == ':'
}

// scopeForm says why a scope is refused, "" if it is good.
func scopeForm(scope string) string {
	if scope == "*" {
		return ""
	}
	family, verb, ok := strings.Cut(scope, ":")
	if !ok || !scopeWord(family) || verb != "*" && !scopeWord(verb) {
		return "must be *, family:* or family:verb"
	}
	return ""
}

func scopeWord(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return s != ""
}
