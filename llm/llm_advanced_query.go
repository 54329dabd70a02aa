package llm

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/loop"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

var advancedQuery = commands.Spec{
	Name:    "llm.advanced-query",
	Summary: "Ask a language model of one's choice.",
	Effect:  commands.Write,
	Traced:  true,
	Action:  "llm:query",
	Async:   true,
	Streams: true,

	Abandonable: true,

	Errors:  query.Errors,
	Example: `{"skill_id":"heating","query":"Is 26 degrees too warm?","options":{"model":"small","temperature":0,"max_tokens":200}}`,
}

// AdvancedQueryParams are the params of llm.advanced-query.
type AdvancedQueryParams struct {
	QueryParams
	Options QueryOptions `json:"options,omitzero" doc:"way of answering"`
}

// QueryOptions shape an answer.
type QueryOptions struct {
	Model           string          `json:"model,omitempty" len:"1-128" doc:"name or alias of a model; llm.models lists them"`
	Temperature     *float64        `json:"temperature,omitempty" range:"0-2" doc:"0 asks for the likeliest answer, which may come from the cache"`
	TopP            *float64        `json:"top_p,omitempty" range:"0-1" doc:"share of likelihood to choose words from"`
	MaxTokens       int             `json:"max_tokens,omitempty" range:"1-1000000" doc:"longest answer"`
	Stop            []string        `json:"stop,omitempty" len:"1-16" doc:"texts that end the answer"`
	Seed            *int64          `json:"seed,omitempty" doc:"for providers that repeat themselves"`
	ReasoningEffort string          `json:"reasoning_effort,omitempty" enum:"none,minimal,low,medium,high" doc:"effort of thinking"`
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

// AdvancedQuery asks a model and returns its whole answer. With stream, events carry
// its pieces before.
func (s *Service) AdvancedQuery(ctx context.Context, call *commands.Call, p AdvancedQueryParams) (QueryResult, error) {
	return s.query(ctx, call, p, false)
}

func (s *Service) query(ctx context.Context, call *commands.Call, p AdvancedQueryParams, repeatable bool) (QueryResult, error) {
	if p.Skill != "" && s.opts.MayActFor != nil {
		if err := s.opts.MayActFor(ctx, call, string(p.Skill)); err != nil {
			return QueryResult{}, err
		}
	}
	messages, err := p.messages()
	if err != nil {
		return QueryResult{}, err
	}
	q := model.Question{
		Principal:  call.Principal,
		Skill:      p.Skill,
		Model:      p.Options.Model,
		Request:    chat.Request{Messages: messages, Options: p.Options.chat()},
		Repeatable: repeatable,
	}
	var emit func(chat.Event) error
	if p.Stream {
		emit = func(e chat.Event) error {
			call.Emit("llm.delta", e)
			return nil
		}
	}
	var result QueryResult
	err = call.Park(ctx, func(ctx context.Context) (err error) {
		result, err = s.answer(ctx, call, q, p, emit)
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return QueryResult{}, protocol.Errorf(protocol.TimedOut, "the model did not answer in time")
	}
	return result, err
}

// answer asks the model, in a loop with tools if the caller has named some.
func (s *Service) answer(ctx context.Context, call *commands.Call, q model.Question, p AdvancedQueryParams, emit func(chat.Event) error) (QueryResult, error) {
	if len(p.Tools) == 0 {
		got, err := s.opts.Models.Ask(ctx, q, emit)
		if err != nil {
			return QueryResult{}, err
		}
		return resultOf(got, nil), nil
	}
	if s.opts.Loop == nil {
		return QueryResult{}, protocol.Errorf(protocol.LLMUnavailable, "models cannot use tools here").With("param_name", "tools").With("reason", "no_tools")
	}
	place := s.opts.Parked.Place(call, p.Patience)
	turn, err := s.opts.Loop.Converse(ctx, loop.Conversation{
		Question: q, Tools: p.Tools, MaxRounds: p.MaxToolRounds, TraceID: call.TraceID, Depth: call.Depth, Tell: call.Emit, Acted: call.Acted, Parking: parking(place),
	}, emit)
	if err != nil {
		return QueryResult{}, err
	}
	if !turn.Parked {
		return resultOf(turn.Reply, turn.Tools), nil
	}
	result := resultOf(turn.Reply, turn.Tools)
	result.Waiting = place.Waiting()
	err = place.Await(ctx, call, &result)
	return result, err
}

// parking has a loop park its calls at a place; nil parks none.
func parking(at *parked.Place) loop.Parking {
	if at == nil {
		return loop.Parking{}
	}
	return loop.Parking{
		Park:     func(ctx context.Context, q *tools.Question, s *loop.State) error { return at.Park(ctx, q, s) },
		Patience: at.Patience(),
	}
}

// resume continues a query after the approval of its tool call.
func (s *Service) resume(ctx context.Context, job *parked.Job) (json.RawMessage, error) {
	var state loop.State
	if err := job.Read(&state); err != nil {
		return nil, err
	}
	turn, err := loop.Continue(ctx, s.opts.Loop, job, &state, nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(resultOf(turn.Reply, turn.Tools))
}

// chat converts the options to those of a request to a provider.
func (o *QueryOptions) chat() chat.Options {
	return chat.Options{
		Temperature:     o.Temperature,
		TopP:            o.TopP,
		MaxTokens:       o.MaxTokens,
		Stop:            o.Stop,
		Seed:            o.Seed,
		ReasoningEffort: o.ReasoningEffort,
		Format:          o.Format,
	}
}

func resultOf(o *model.Reply, used *loop.ToolUse) QueryResult {
	segments := o.Answer.Segments
	if segments == nil {
		segments = []chat.Segment{}
	}
	return QueryResult{
		Result:        o.Answer.Text(),
		TokensUsed:    o.Usage.Total(),
		Model:         o.Model,
		ExecutionTime: float64(o.Took) / float64(time.Millisecond),
		FinishReason:  string(o.Answer.Finish.Reason),
		FinishDetail:  o.Answer.Finish.Detail,
		Segments:      segments,
		Usage:         o.Usage,
		Cost:          o.Cost,
		Tools:         used,
		From:          o.From,
	}
}
