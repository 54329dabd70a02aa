package conversation

import (
	"context"
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

var llmChat = commands.Spec{
	Name:    "llm.chat",
	Summary: "Say something in a conversation with a model that may use tools, or run a tool oneself by a slash command.",
	Effect:  commands.Write,
	Traced:  true,
	Action:  "llm:chat",
	Async:   true,
	Streams: true,
	Errors: []protocol.Code{
		protocol.LLMUnavailable, protocol.LLMRefused, protocol.BudgetSpent, protocol.TimedOut, protocol.Busy, protocol.InvalidState, protocol.NotFound,
	},
	Example: `{"session_id":"evening","message":"Is it too warm in the bedroom?","tools":["thermostat.*"]}`,
}

// ChatParams are the params of llm.chat.
type ChatParams struct {
	Session string           `json:"session_id,omitempty" len:"1-64" pattern:"^[A-Za-z0-9._-]+$" audit:"yes" doc:"the caller's conversation; a new one when absent"`
	Message string           `json:"message" len:"1-1000000" doc:"words of the user; /help lists those that are answered without a model"`
	Skill   protocol.SkillID `json:"skill_id,omitempty" doc:"the skill on whose behalf is asked: the caller's, or one it may act for"`
	Model   string           `json:"model,omitempty" len:"1-128" doc:"name of the model that answers from now on; llm.models lists them"`
	System  *string          `json:"system,omitempty" len:"0-100000" doc:"text that the model is told before everything else from now on"`
	Tools   []string         `json:"tools,omitempty" len:"0-64" each:"1-256" doc:"patterns of tools that the model may use from now on, such as thermostat.*; none at first"`
	Rounds  int              `json:"max_tool_rounds,omitempty" range:"1-100" doc:"number of times that it may use them before it must answer"`
	Stream  bool             `json:"stream,omitempty" doc:"send llm.delta events while the answer is written"`
	Literal *bool            `json:"literal,omitempty" doc:"a message that begins with / is for the model too: for callers that pass on messages of others; by default true for agents and skills, false for operators"`
	parked.Patience
}

// literal reports whether slash commands go to the model, too. Agents and skills mostly
// pass on messages of others, who must not run tools with the rights of the agent and
// without approval.
func (p *ChatParams) literal(who *protocol.Principal) bool {
	if p.Literal != nil {
		return *p.Literal
	}
	return who.Kind != protocol.KindOperator
}

// Target implements [commands.Targeter].
func (p ChatParams) Target() commands.Resource {
	id := p.Model
	if id == "" {
		id = "default"
	}
	return commands.Resource{Type: "llm", ID: id}
}

// ChatResult is the result of llm.chat.
type ChatResult struct {
	Session       string         `json:"session_id" doc:"the conversation"`
	By            string         `json:"by" enum:"model,command" doc:"source of the answer: the model, or a slash command"`
	Result        string         `json:"result" doc:"the text of the answer"`
	Ended         bool           `json:"ended,omitempty" doc:"the conversation is over, by /quit"`
	Turns         int            `json:"turns" doc:"number of answers of the model in the conversation"`
	Model         string         `json:"model,omitempty" doc:"name of the model that answered"`
	TokensUsed    int            `json:"tokens_used" doc:"tokens of this message and its answer"`
	ExecutionTime float64        `json:"execution_time" doc:"milliseconds the model took"`
	FinishReason  string         `json:"finish_reason,omitempty" enum:"end_turn,tool_use,max_tokens,refused,error,waiting" doc:"reason for the end of the answer; waiting: a call of a tool waits for an approval, and the task has the answer later"`
	FinishDetail  string         `json:"finish_detail,omitempty" doc:"more about it"`
	Segments      []chat.Segment `json:"segments,omitempty" doc:"the last answer of the model in order"`
	Usage         *chat.Usage    `json:"usage,omitempty" doc:"tokens by kind"`
	Cost          float64        `json:"cost,omitempty" doc:"in the currency of the configured prices"`
	Tools         *loop.ToolUse  `json:"tools,omitempty" doc:"outcome of the tools"`

	Waiting *parked.WaitingEvent `json:"waiting,omitempty" doc:"with finish_reason waiting: the task and the approval"`
}

// Chat answers a message.
func (s *Service) Chat(ctx context.Context, call *commands.Call, p ChatParams) (ChatResult, error) {
	if p.Skill != "" && s.opts.MayActFor != nil {
		if err := s.opts.MayActFor(ctx, call, string(p.Skill)); err != nil {
			return ChatResult{}, err
		}
	}
	if p.Session == "" {
		p.Session = protocol.NewID()
	}
	key := keyOf(call.Principal, p.Session)
	if err := s.enter(key); err != nil {
		return ChatResult{}, err
	}
	defer s.leave(key)
	c, known := s.find(call.Principal, p.Session)
	p.settle(&c)
	var result ChatResult
	err := call.Park(ctx, func(ctx context.Context) (err error) {
		if !p.literal(call.Principal) {
			if order, ok := parseOrder(p.Message); ok {
				var done bool
				if result, done, err = s.obey(ctx, call, &c, known, order); done || err != nil {
					return err
				}
			}
		}
		result, err = s.answer(ctx, call, &c, known, p)
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return ChatResult{}, protocol.Errorf(protocol.TimedOut, "the model did not answer in time")
	}
	return result, err
}

// settle sets the options of a conversation that hold from this message on.
func (p *ChatParams) settle(c *Conversation) {
	if p.Skill != "" {
		c.Skill = p.Skill
	}
	if p.Model != "" {
		c.Model = p.Model
	}
	if p.System != nil {
		c.System = *p.System
	}
	if p.Tools != nil {
		c.Tools = p.Tools
	}
}

// answer has the model answer, and stores both sides.
func (s *Service) answer(ctx context.Context, call *commands.Call, c *Conversation, known bool, p ChatParams) (ChatResult, error) {
	said := chat.TextMessage(chat.User, p.Message)
	env := environment(call, c)
	health := c.Health
	health.Recent = append([]bool(nil), health.Recent...) // the stored record is not changed
	talk := loop.Conversation{
		Question: model.Question{Principal: call.Principal, Skill: c.Skill, Model: c.Model, Request: chat.Request{Messages: c.messages(said)}},
		Tools:    c.Tools, MaxRounds: p.Rounds, Session: c.ID, TraceID: env.TraceID, Health: &health, Tell: call.Emit,
	}
	var emit func(chat.Event) error
	if p.Stream {
		emit = func(e chat.Event) error {
			call.Emit("llm.delta", e)
			return nil
		}
	}
	place := s.opts.Parked.Place(call, p.Patience)
	if place != nil {
		talk.Parking = loop.Parking{
			Park: func(ctx context.Context, q *tools.Question, state *loop.State) error {
				return place.Park(ctx, q, &parkedChat{Loop: state, Conversation: c.settings(), Said: said})
			},
			Patience: place.Patience(),
		}
	}
	turn, err := s.opts.Talker.Converse(ctx, talk, emit)
	if turn.Parked {
		return s.await(ctx, call, c, known, place, turn)
	}
	c.Health = health
	if err != nil && len(turn.Messages) == 0 {
		return ChatResult{}, err // there is nothing to store
	}
	stored := s.add(ctx, c, turned{said: said, turn: turn, health: health})
	if stored != nil && err == nil {
		s.opts.Log.Warn("a conversation is not stored", "error", stored)
		call.Warn("the conversation could not be stored: the model will not remember this")
	}
	if err != nil {
		return ChatResult{}, err
	}
	return resultOf(c, turn), nil
}

func resultOf(c *Conversation, turn *loop.Turn) ChatResult {
	a := turn.Answer
	return ChatResult{
		Session: c.ID, By: "model", Result: a.Text(), Turns: c.Count, Model: turn.Model, TokensUsed: turn.Usage.Total(),
		ExecutionTime: float64(turn.Took) / float64(time.Millisecond), FinishReason: string(a.Finish.Reason), FinishDetail: a.Finish.Detail,
		Segments: a.Segments, Usage: &turn.Usage, Cost: turn.Cost, Tools: turn.Tools,
	}
}
