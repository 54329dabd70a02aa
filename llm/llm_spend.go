package llm

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/protocol"
)

var spend = commands.Spec{
	Name:    "llm.spend",
	Summary: "Show what was spent on language models: requests, tokens and cost, by principal, model, provider, skill, run, day and bridge.",
	Effect:  commands.Read,
	Action:  "llm:spend",
	Example: `{"since":"2026-11-01","by":["principal","model"]}`,
}

// SpendParams are the params of llm.spend.
type SpendParams struct {
	Since     string           `json:"since,omitempty" pattern:"^[0-9]{4}-[0-9]{2}-[0-9]{2}$" doc:"first day, in UTC; from the first that is kept if absent"`
	Until     string           `json:"until,omitempty" pattern:"^[0-9]{4}-[0-9]{2}-[0-9]{2}$" doc:"last day; until today if absent"`
	By        []string         `json:"by,omitempty" len:"0-8" enum:"day,space,principal,model,provider,skill,run,bridge" doc:"dimensions of the rows; none if absent, so that there is one row"`
	Principal string           `json:"principal,omitempty" len:"1-256" doc:"only the spending of this principal"`
	Model     string           `json:"model,omitempty" len:"1-128" doc:"only the spending on this model"`
	Provider  string           `json:"provider,omitempty" len:"1-128" doc:"only the spending at this provider"`
	Skill     protocol.SkillID `json:"skill_id,omitempty" doc:"only the spending on behalf of this skill"`
	Run       string           `json:"run_id,omitempty" len:"1-64" doc:"only the spending of this run"`
	Sort      string           `json:"sort,omitempty" enum:"day,-day,principal,-principal,model,-model,provider,-provider,requests,-requests,tokens,-tokens,cost,-cost" doc:"field to sort by, the highest first behind a minus; the dearest first if absent"`
	listing.Page
}

// SpendResult is the result of llm.spend.
type SpendResult = model.SpendingResult

// Spend returns the caller's own spending, for managers of a space that of all its
// principals.
func (s *Service) Spend(_ context.Context, call *commands.Call, p SpendParams) (SpendResult, error) {
	return s.opts.Models.Spending(call.Principal, model.SpendingQuery{
		Since: p.Since, Until: p.Until, By: p.By, Principal: p.Principal, Model: p.Model, Provider: p.Provider, Skill: p.Skill, Run: p.Run,
		Sort: p.Sort, Page: p.Page,
	})
}
