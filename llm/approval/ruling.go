package approval

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/llm/tools"
)

// A Ruling is the decision about a call: to run it, to ask for an approval, or to deny
// it.
type Ruling int

// The rulings, mildest first.
const (
	Run Ruling = iota
	Ask
	Deny
)

// String is the ruling in lower case.
func (r Ruling) String() string { return [...]string{"run", "ask", "deny"}[r] }

// A Policy holds the operator's rules about tools, beside their declared risk.
type Policy interface {
	// MayRun reports whether a model may call the tool for the principal at all, and
	// Unattended whether it may without an approval.
	MayRun(ctx context.Context, x *tools.Execution) bool
	Unattended(ctx context.Context, x *tools.Execution) bool
}

// Versions identify the policies in force.
type Versions interface {
	// Version is the version of the policies in force.
	Version() string
	// Asking names the policies that require an approval of a call, "" for none.
	Asking(ctx context.Context, x *tools.Execution) string
}

// unversioned are policies that never change.
type unversioned struct{}

func (unversioned) Version() string                                 { return "" }
func (unversioned) Asking(context.Context, *tools.Execution) string { return "" }

// harmless are the declared risks that need no approval. Any other word does.
var harmless = []string{"", "none", "low", "medium"}

// judge returns the ruling on a call, with its reason. The strictest of all risks and
// policies counts.
func (s *Service) judge(ctx context.Context, t *tools.Tool, x *tools.Execution) (Ruling, string) {
	ruling, why := Run, ""
	stricter := func(r Ruling, reason string) {
		if r > ruling {
			ruling, why = r, reason
		}
	}
	declared := func(risk string) {
		if r := s.ofRisk(risk); r > ruling {
			stricter(r, fmt.Sprintf("it declares the risk %q", risk))
		}
	}
	for _, risk := range x.Risks { // in the words of the reached capabilities
		declared(risk)
	}
	declared(t.Risk)
	declared(x.Risk)
	if s.opts.Policy == nil {
		return ruling, why
	}
	stricter(s.ofPolicy(ctx, x))
	for _, name := range x.Reaches { // a policy about a tool holds for the call of a group that reaches it
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
