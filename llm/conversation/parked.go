package conversation

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/loop"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/protocol"
)

// A parkedChat is an answer that waits for the approval of a call. The conversation is
// without its turns: further turns may be added meanwhile.
type parkedChat struct {
	Loop         *loop.State  `json:"loop"`
	Conversation Conversation `json:"conversation"`
	Said         chat.Message `json:"said"`
}

// Trace implements [parked.Traced].
func (p *parkedChat) Trace() string { return p.Loop.TraceID }

// settings is a copy of the conversation without its turns and their totals.
func (s *Conversation) settings() Conversation {
	bare := *s
	bare.Turns, bare.Count, bare.Tokens, bare.Cost = nil, 0, 0, 0
	return bare
}

// await is the result of a message whose answer waits for the approval of a call: the
// answer, or that it will come later.
func (s *Service) await(ctx context.Context, call *commands.Call, c *Conversation, known bool, at *parked.Place, turn *loop.Turn) (ChatResult, error) {
	if !known { // the options of the message hold from now on
		if err := s.keep(ctx, call.Principal, c, known); err != nil {
			s.opts.Log.Warn("a conversation is not stored", "error", err)
		}
	}
	result := resultOf(c, turn)
	result.Waiting = at.Waiting()
	err := at.Await(ctx, call, &result)
	return result, err
}

// resume continues an answer whose call waited, and adds it to the current state of the
// conversation.
func (s *Service) resume(ctx context.Context, job *parked.Job) (json.RawMessage, error) {
	var p parkedChat
	if err := job.Read(&p); err != nil {
		return nil, err
	}
	turn, err := loop.Continue(ctx, s.opts.Talker, job, p.Loop, func(state *loop.State) any {
		return &parkedChat{Loop: state, Conversation: p.Conversation, Said: p.Said}
	})
	c := p.Conversation
	if err != nil {
		if turn != nil && len(turn.Messages) > 0 && ctx.Err() == nil { // the messages of an interrupted turn are kept
			_ = s.add(ctx, &c, turned{said: p.Said, turn: turn, health: turn.Health, task: job.Task()})
		}
		return nil, err
	}
	if err := s.add(ctx, &c, turned{said: p.Said, turn: turn, health: turn.Health, task: job.Task()}); err != nil {
		s.opts.Log.Warn("a conversation is not stored", "error", err)
	}
	return json.Marshal(resultOf(&c, turn))
}

// cancelWaiting cancels the parked answers of a conversation that is to be deleted or
// reset.
func (s *Service) cancelWaiting(ctx context.Context, call *commands.Call, c *Conversation) error {
	if s.opts.Parked == nil {
		return nil
	}
	return s.opts.Parked.CancelSession(ctx, call.Principal.Party(), llmChat.Name, c.ID, "the conversation was forgotten")
}

// turned is a message with its answer.
type turned struct {
	said   chat.Message
	turn   *loop.Turn
	health loop.Health
	task   protocol.TaskID // of a parked answer, "" for others
}

// add appends a turn to a conversation, even if the caller has gone. Concurrent turns of
// other callers are kept. C becomes the stored conversation.
func (s *Service) add(ctx context.Context, c *Conversation, t turned) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writing)
	defer cancel()
	key := c.KeptFor().String() + "/" + c.ID
	settled := *c
	if _, _, ok := s.opts.Conversations.Get(key); !ok {
		s.makeRoom(ctx, c.KeptFor())
	}
	stored, _, err := records.Change(ctx, s.opts.Conversations, key, func(old *Conversation, _ uint64) (*Conversation, error) {
		if t.task != "" && old != nil && old.Resets != settled.Resets {
			return old, nil // the conversation was reset meanwhile
		}
		next := settled
		if old != nil && !s.quiet(old) {
			next.Turns, next.Count, next.Tokens, next.Cost, next.Began = old.Turns, old.Count, old.Tokens, old.Cost, cmp.Or(old.Began, next.Began)
		}
		s.append(&next, t)
		*c = next
		return &next, nil
	})
	if err == nil {
		*c = *stored
	}
	return err
}

// append adds a turn, unless it was added before a crash.
func (s *Service) append(c *Conversation, t turned) {
	for _, before := range c.Turns {
		if t.task != "" && before.Task == t.task {
			return
		}
	}
	c.Turns = append(c.Turns[:len(c.Turns):len(c.Turns)], Turn{Messages: append([]chat.Message{t.said}, t.turn.Messages...), Task: t.task})
	c.Health, c.Active = t.health, s.opts.Now().UnixMilli()
	c.Count++
	if t.turn.Reply != nil {
		c.Tokens += t.turn.Usage.Total()
		c.Cost += t.turn.Cost
	}
	c.fit(s.opts.MaxTurns, s.opts.MaxBytes)
}
