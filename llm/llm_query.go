package llm

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/loop"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/protocol"
)

var query = commands.Spec{
	Name:    "llm.query",
	Summary: "Ask the default language model.",
	Effect:  commands.Write,
	Traced:  true,
	Action:  "llm:query",
	Async:   true,
	Streams: true,

	Abandonable: true,

	Errors:  []protocol.Code{protocol.LLMUnavailable, protocol.LLMRefused, protocol.BudgetSpent, protocol.TimedOut, protocol.Busy, protocol.NotFound},
	Example: `{"skill_id":"heating","query":"Is 26 degrees too warm for a bedroom?"}`,
}

// QueryParams are the params of llm.query.
type QueryParams struct {
	Skill      protocol.SkillID `json:"skill_id,omitempty" doc:"the skill on whose behalf is asked: the caller's, or one it may act for"`
	Query      string           `json:"query" len:"1-1000000" doc:"question"`
	Parameters *Parameters      `json:"parameters,omitempty" doc:"subject of the question"`
	Stream     bool             `json:"stream,omitempty" doc:"send llm.delta events while the answer is written"`
	Tools      []string         `json:"tools,omitempty" len:"0-64" doc:"patterns of tools that the model may use, such as thermostat.*; none by default"`

	MaxToolRounds int `json:"max_tool_rounds,omitempty" range:"1-100" doc:"number of times that it may use them before it must answer"`
	parked.Patience
}

// Target implements [commands.Targeter].
func (p QueryParams) Target() commands.Resource {
	return commands.Resource{Type: "llm", ID: "default"}
}

// QueryResult is the result of llm.query and llm.advanced-query.
type QueryResult struct {
	Result        string         `json:"result" doc:"the text of the answer"`
	TokensUsed    int            `json:"tokens_used" doc:"tokens of question and answer"`
	Model         string         `json:"model" doc:"name of the model that answered"`
	ExecutionTime float64        `json:"execution_time" doc:"milliseconds the model took; 0 from the cache"`
	FinishReason  string         `json:"finish_reason" enum:"end_turn,tool_use,max_tokens,refused,error,waiting" doc:"reason for the end of the answer; waiting: a call of a tool waits for an approval, and the task has the answer later"`
	FinishDetail  string         `json:"finish_detail,omitempty" doc:"description by the provider"`
	Segments      []chat.Segment `json:"segments" doc:"the answer in order: text, reasoning, media, tool calls"`
	Usage         chat.Usage     `json:"usage" doc:"tokens by kind"`
	Cost          float64        `json:"cost,omitempty" doc:"in the currency of the configured prices"`
	Tools         *loop.ToolUse  `json:"tools,omitempty" doc:"outcome of the tools, if the model could use any"`
	From          string         `json:"from" enum:"provider,cache,flight" doc:"provider; cache, or flight for an identical query that ran at the same time"`

	Waiting *parked.WaitingEvent `json:"waiting,omitempty" doc:"with finish_reason waiting: the task and the approval"`
}

// Query asks the default model. The answer to a query without tools is cached: the same
// query is answered from the cache as long as it holds the answer.
func (s *Service) Query(ctx context.Context, call *commands.Call, p QueryParams) (QueryResult, error) {
	return s.query(ctx, call, AdvancedQueryParams{QueryParams: p}, len(p.Tools) == 0)
}
