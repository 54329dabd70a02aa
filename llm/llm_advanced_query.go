package llm

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

var advancedQuery = commands.Spec{
	Name:    "llm.advanced-query",
	Summary: "Ask a language model of one's choice.",
	Effect:  commands.Write,
	Action:  "llm:query",
	Async:   true,
	Streams: true,
	Errors:  query.Errors,
	Example: `{"skill_id":"heating","query":"Is 26 degrees too warm?","options":{"model":"small","temperature":0,"max_tokens":200}}`,
}

// AdvancedQueryParams are the params of llm.advanced-query.
type AdvancedQueryParams struct {
	QueryParams
	Options QueryOptions `json:"options,omitzero" doc:"how to answer"`
}

// QueryOptions shape an answer.
type QueryOptions struct {
	Model           string          `json:"model,omitempty" len:"1-128" doc:"name or alias of a model; llm.models lists them"`
	Temperature     *float64        `json:"temperature,omitempty" range:"0-2" doc:"0 asks for the likeliest answer, which may come from the cache"`
	TopP            *float64        `json:"top_p,omitempty" range:"0-1" doc:"share of likelihood to choose words from"`
	MaxTokens       int             `json:"max_tokens,omitempty" range:"1-1000000" doc:"longest answer"`
	Stop            []string        `json:"stop,omitempty" len:"1-16" doc:"texts that end the answer"`
	Seed            *int64          `json:"seed,omitempty" doc:"for providers that repeat themselves"`
	ReasoningEffort string          `json:"reasoning_effort,omitempty" enum:"none,minimal,low,medium,high" doc:"how long to think"`
	Format          json.RawMessage `json:"format,omitempty" doc:"JSON Schema that the answer must fit"`
}

// Target implements [commands.Targeter].
func (p AdvancedQueryParams) Target() commands.Resource {
	id := p.Options.Model
	if id == "" {
		id = "default"
	}
	return commands.Resource{Type: "llm", ID: id}
}

// AdvancedQuery asks a model and returns its answer whole; with stream its
// pieces are events before that.
func (s *Service) AdvancedQuery(ctx context.Context, call *commands.Call, p AdvancedQueryParams) (QueryResult, error) {
	if p.Skill != "" && s.opts.MayActFor != nil {
		if err := s.opts.MayActFor(ctx, call, string(p.Skill)); err != nil {
			return QueryResult{}, err
		}
	}
	messages, err := p.messages()
	if err != nil {
		return QueryResult{}, err
	}
	o := p.Options
	q := question{
		who:   call.Principal,
		model: o.Model,
		request: &chat.Request{Messages: messages, Options: chat.Options{
			Temperature:     o.Temperature,
			TopP:            o.TopP,
			MaxTokens:       o.MaxTokens,
			Stop:            o.Stop,
			Seed:            o.Seed,
			ReasoningEffort: o.ReasoningEffort,
			Format:          o.Format,
		}},
	}
	if p.Stream {
		q.emit = func(e chat.Event) { call.Emit("llm.delta", e) }
	}
	var got *outcome
	err = call.Park(ctx, func(ctx context.Context) (err error) {
		got, err = s.ask(ctx, q)
		return err
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return QueryResult{}, protocol.Errorf(protocol.TimedOut, "the model did not answer in time")
	case err != nil:
		return QueryResult{}, err
	}
	return got.result(), nil
}

// errTooSlow is how a query ends whose time is over.
var errTooSlow = context.DeadlineExceeded

func (o *outcome) result() QueryResult {
	segments := o.answer.Segments
	if segments == nil {
		segments = []chat.Segment{}
	}
	return QueryResult{
		Result:        o.answer.Text(),
		TokensUsed:    o.answer.Finish.Usage.Total(),
		Model:         o.model,
		ExecutionTime: float64(o.took) / float64(time.Millisecond),
		FinishReason:  string(o.answer.Finish.Reason),
		FinishDetail:  o.answer.Finish.Detail,
		Segments:      segments,
		Usage:         o.answer.Finish.Usage,
		Cost:          o.cost,
		From:          o.from,
	}
}
