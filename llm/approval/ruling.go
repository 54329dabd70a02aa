package approval

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/llm/tools"
)

// A Ruling decides how a call goes on.
type Ruling int

// The rulings, mildest first.
const (
	Run Ruling = iota
	Ask
	Deny
)

// String is the ruling in lower case.
func (r Ruling) String() string { return [...]string{"run", "ask", "deny"}[r] }

// A Policy says what the operator wants of tools, besides what they declare.
type Policy interface {
	// MayRun reports whether a model may have a tool run at all for somebody,
	// and Unattended whether it may without anybody being asked.
	MayRun(ctx context.Context, x *tools.Execution) bool
	Unattended(ctx context.Context, x *tools.Execution) bool
}

// Versions tell the policies of one time from those of another.
type Versions interface {
	// Version names the policies in force.
	Version() string
	// Asking names those of them that want somebody to agree to a call, "" if none does.
	Asking(ctx context.Context, x *tools.Execution) string
}

// unversioned are policies that never change.
type unversioned struct{}

func (unversioned) Version() string                                 { return "" }
func (unversioned) Asking(context.Context, *tools.Execution) string { return "" }

// Risks that a capability may declare and that are nothing to ask about. Any
// other, and any unknown word, asks.
var harmless = []string{"", "none", "low", "medium"}

// judge rules on a call, with the reason. The strictest voice wins.
func (s *Service) judge(ctx context.Context, t *tools.Tool, x *tools.Execution) (Ruling, string) {
	ruling, why := Run, ""
	stricter := func(r Ruling, reason string) {
		if r > ruling {
			ruling, why = r, reason
		}
	}
	for _, risk := range x.Risks { // in the words of whom it reaches
		stricter(s.ofRisk(risk), fmt.Sprintf("it declares the risk %q", risk))
	}
	stricter(s.ofRisk(t.Risk), fmt.Sprintf("it declares the risk %q", t.Risk))
	stricter(s.ofRisk(x.Risk), fmt.Sprintf("it declares the risk %q", x.Risk))
	if s.opts.Policy == nil {
		return ruling, why
	}
	stricter(s.ofPolicy(ctx, x))
	for _, name := range x.Reaches { // what policy says of a door holds for a group with it
		one := *x
		one.Name = name
		if r, reason := s.ofPolicy(ctx, &one); r != Run {
			stricter(r, reason+", for "+name)
		}
	}
	return ruling, why
}

func (s *Service) ofPolicy(ctx context.Context, x *tools.Execution) (Ruling, string) {
	switch {
	case !s.opts.Policy.MayRun(ctx, x):
		return Deny, "policy forbids it"
	case !s.opts.Policy.Unattended(ctx, x):
		return Ask, "policy wants somebody to agree"
	}
	return Run, ""
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
