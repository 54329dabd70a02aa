package policy

import (
	"context"
	"strings"

	"github.com/aibridge/aibridge/commands"
)

var policyValidate = commands.Spec{
	Name:    "policy.validate",
	Summary: "Say what is wrong with policies, without putting them in force.",
	Effect:  commands.Read,
	Action:  "policy:validate",
	Example: `{"policy":"permit (principal in Role::\"observer\", action == Action::\"skill:discover\", resource);"}`,
}

// ValidateParams are the params of policy.validate.
type ValidateParams struct {
	Policy string `json:"policy" len:"1-65536" doc:"policies in Cedar"`
}

// ValidateResult is the result of policy.validate.
type ValidateResult struct {
	Valid    bool     `json:"valid" doc:"true if policy.put would take it"`
	Errors   []string `json:"errors" doc:"fault"`
	Warnings []string `json:"warnings" doc:"possible faults that may be all right"`
}

// Validate checks a text.
func (s *Service) Validate(_ context.Context, _ *commands.Call, p ValidateParams) (ValidateResult, error) {
	_, warnings, err := s.Engine.Check(p.Policy)
	result := ValidateResult{Valid: err == nil, Errors: []string{}, Warnings: append([]string{}, warnings...)}
	if err != nil {
		result.Errors = strings.Split(strings.ToValidUTF8(err.Error(), "?"), "\n")
	}
	return result, nil
}
