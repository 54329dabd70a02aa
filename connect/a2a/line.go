package a2a

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// mostCalls bounds the calls of one agent that are under way.
const mostCalls = 64

// A link is the way to one agent while it is used: requests that the bridge sends over
// it are answered in this process.
type link struct {
	keeper *keeper
	agent  *Agent
	card   *Card

	mu      sync.Mutex
	over    bool
	calls   map[string]context.CancelFunc // by the id of the request
	working sync.WaitGroup
}

var _ commands.Line = (*link)(nil)

// Attend implements [commands.Line].
func (l *link) Attend() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.over
}

// end ends the link with all requests that were sent over it, and waits for that.
func (l *link) end() {
	l.mu.Lock()
	l.over = true
	for _, cancel := range l.calls {
		cancel()
	}
	l.mu.Unlock()
	l.working.Wait()
}

// Send implements [commands.Line]: it takes a request to the agent.
func (l *link) Send(message []byte) bool {
	request, err := protocol.DecodeRequest(message, protocol.Limits{})
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over:
		return false
	case request.Command == "task.cancel":
		l.cancel(request.Params)
		return true
	case len(l.calls) >= mostCalls:
		l.working.Go(func() {
			l.answer(request, nil, protocol.BusyFor(time.Second, "too many calls of the agent are under way"))
		})
		return true
	}
	caller := callerOf(message)
	ctx, cancel := context.WithTimeout(context.Background(), l.agent.timeout())
	l.calls[request.ID] = cancel
	l.working.Go(func() {
		defer cancel()
		result, err := l.run(ctx, request, caller)
		l.mu.Lock()
		delete(l.calls, request.ID)
		l.mu.Unlock()
		l.answer(request, result, err)
	})
	return true
}

func (l *link) answer(request *protocol.Request, result *Result, failure *protocol.Error) {
	answer := request.Answer(string(l.agent.ID), time.Now())
	if answer.Err = failure; failure == nil {
		text, err := json.Marshal(result)
		if err != nil {
			answer.Err = protocol.Errorf(protocol.Internal, "the answer of the agent cannot be told")
		}
		answer.Result = text
	}
	l.keeper.agents.AnswerOver(l, principal(l.agent.Space), answer.Append(nil))
}

// cancel ends the request that the params of a task.cancel name.
func (l *link) cancel(params []byte) {
	var p struct {
		Task string `json:"task_id"`
	}
	if json.Unmarshal(params, &p) == nil && l.calls[p.Task] != nil {
		l.calls[p.Task]()
	}
}

// run has the agent carry out a request.
func (l *link) run(ctx context.Context, r *protocol.Request, caller string) (*Result, *protocol.Error) {
	m, err := l.message(r, caller)
	if err != nil {
		return nil, err
	}
	way, at, err := l.keeper.way(l.agent, l.card)
	if err != nil {
		return nil, err
	}
	doubts := 0
	if m.Task != "" {
		doubts = mostDoubts
	}
	if _, mqtt := way.(*busWay); mqtt { // where the requester makes the ids
		m.Task, m.Context = cmp.Or(m.Task, uuid.NewString()), cmp.Or(m.Context, uuid.NewString())
	}
	seq := uint64(0)
	t := &talk{way: way, tenant: at.Tenant, stream: l.card.Capabilities.Streaming, doubts: doubts, tell: func(text string) {
		data, err := json.Marshal(map[string]string{"message": text})
		if err != nil {
			return
		}
		seq++
		event := protocol.Event{Version: protocol.Version, ID: r.ID, Timestamp: time.Now().UnixMilli(), Name: "task.progress", Seq: seq, Data: data}
		l.keeper.agents.AnswerOver(l, principal(l.agent.Space), event.Append(nil))
	}}
	result, err := t.run(ctx, m)
	if err == nil && !m.single {
		result.Continue = l.thread(result, caller)
	}
	return result, err
}

// message is the agent's message for a request.
func (l *link) message(r *protocol.Request, caller string) (m outgoing, err *protocol.Error) {
	var p struct {
		Capability protocol.CapabilityID `json:"capability_id"`
		Params     json.RawMessage       `json:"params"`
	}
	if r.Command != "skill.invoke" {
		return m, protocol.Errorf(protocol.UnknownCommand, "an agent elsewhere takes no command but skill.invoke").With("command", r.Command)
	}
	if json.Unmarshal(r.Params, &p) != nil {
		return m, protocol.InvalidParam("params", "cannot be read")
	}
	list, _ := l.card.capabilities("")
	for i := range list {
		if list[i].ID == p.Capability {
			return l.written(&list[i], r.ID, p.Params, caller)
		}
	}
	return m, protocol.Errorf(protocol.NotFound, "the agent has no capability %q", p.Capability).With("capability_id", string(p.Capability))
}

// written is the agent's message for a call of a capability.
func (l *link) written(c *capability, id string, params json.RawMessage, caller string) (m outgoing, err *protocol.Error) {
	m = outgoing{ID: id, Role: "ROLE_USER"}
	if c.skill != "" {
		m.Metadata = map[string]any{skillKey: c.skill}
	}
	if c.typed {
		m.single = true
		m.Parts = []map[string]any{{"data": map[string]any{"tool": c.skill, "arguments": params}, "mediaType": "application/json"}}
		return m, nil
	}
	var p struct {
		Text     string          `json:"text"`
		Data     json.RawMessage `json:"data"`
		Continue string          `json:"continue"`
	}
	if json.Unmarshal(params, &p) != nil {
		return m, protocol.InvalidParam("params", "cannot be read")
	}
	if p.Text != "" {
		m.Parts = append(m.Parts, map[string]any{"text": p.Text, "mediaType": "text/plain"})
	}
	if len(p.Data) > 0 {
		m.Parts = append(m.Parts, map[string]any{"data": p.Data, "mediaType": "application/json"})
	}
	if p.Continue == "" {
		return m, nil
	}
	t, ok := l.follows(p.Continue, caller)
	if !ok {
		return m, protocol.InvalidParam("params.continue", "is of no answer of this agent to you, or of one before the bridge was started anew")
	}
	m.Task, m.Context = t.Task, t.Context
	return m, nil
}
