package approval

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/llm/tools"
)

// A Ruling is what is to happen with a call.
type Ruling int

// The rulings, mildest first.
const (
	Run Ruling = iota
	Ask
	Deny
)

// String is the ruling in lower case.
func (r Ruling) String() string { return [...]string{"run", "ask", "deny"}[r] }

// About is what a call reaches, as far as the tool's own declaration does not
// say it.
type About struct {
	Roster []string // the skills of a group that it would reach
	Risks  []string // that their capabilities declare
}

// A Policy says what the operator wants of tools, besides what they declare.
type Policy interface {
	// MayRun reports whether a model may have a tool run at all for somebody,
	// and Unattended whether it may without anybody being asked.
	MayRun(ctx context.Context, x *tools.Execution) bool
	Unattended(ctx context.Context, x *tools.Execution) bool
}

// Risks that a capability may declare and that are nothing to ask about. Any
// other, and whatever nobody has heard of, asks.
var harmless = []string{"", "none", "low", "medium"}

// judge says what is to happen with a call, and why. The strictest voice wins.
func (s *Service) judge(ctx context.Context, t *tools.Tool, x *tools.Execution, about About) (Ruling, string) {
	ruling, why := Run, ""
	stricter := func(r Ruling, reason string) {
		if r > ruling {
			ruling, why = r, reason
		}
	}
	for _, risk := range append([]string{t.Risk}, about.Risks...) {
		stricter(s.ofRisk(risk), fmt.Sprintf("the tool declares the risk %q", risk))
	}
	if s.opts.Policy != nil {
		if !s.opts.Policy.MayRun(ctx, x) {
			stricter(Deny, "policy forbids it")
		} else if !s.opts.Policy.Unattended(ctx, x) {
			stricter(Ask, "policy wants somebody to agree")
		}
	}
	return ruling, why
}

func (s *Service) ofRisk(risk string) Ruling {
	risk = strings.ToLower(risk)
	switch {
	case risk == tools.RiskDeny:
		return Deny
	case slices.Contains(s.opts.AskAbout, risk):
		return Ask
	case slices.Contains(harmless, risk):
		return Run
	}
	return Ask
}
