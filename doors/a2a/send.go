package a2a

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/task"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// maxSaid is the number of messages of a task that are kept, the latest.
const maxSaid = 64

// send takes a message, and returns the task that it began or was for.
func (d *Door) send(ctx context.Context, c *caller, s *sending) (protocol.TaskID, error) {
	if s.push != nil {
		if err := d.pushes.check(s.push); err != nil {
			return "", err
		}
	}
	if c.names {
		return d.sendNamed(ctx, c, s)
	}
	if s.message.Task != "" {
		return d.goOn(ctx, c, s)
	}
	p, err := d.understand(ctx, c, &s.message)
	if err != nil {
		return "", err
	}
	free, err := d.alone(ctx, c, s.message.ID)
	if err != nil {
		return "", err
	}
	defer free()
	if known, err := d.repeated(c, &s.message); known != "" || err != nil {
		return known, err
	}
	return d.begin(ctx, c, s, p)
}

// sendNamed handles a message whose sender has chosen the id of its task. A message for
// a task that runs or has ended is a repetition without an effect.
func (d *Door) sendNamed(ctx context.Context, c *caller, s *sending) (protocol.TaskID, error) {
	name := s.message.Task
	if id, err := uuid.Parse(name); err != nil || id.Version() != 4 || len(name) != 36 {
		return "", invalid("message.taskId", "must be a UUID of version 4: over MQTT the requester makes the id of a task")
	}
	free, err := d.alone(ctx, c, nameMark+name)
	if err != nil {
		return "", err
	}
	defer free()
	now, err := d.standing(c, name)
	if err == nil {
		if m := &s.message; m.Context != "" && m.Context != now.Dialogue.Context {
			return "", invalid("message.contextId", "is not that of the task")
		}
		if history := notesOf(now).History; now.State != task.Waiting || len(history) > 0 && history[len(history)-1].ID == s.message.ID {
			return now.ID, nil
		}
		return d.goOn(ctx, c, s)
	}
	p, err := d.understand(ctx, c, &s.message)
	if err != nil {
		return "", err
	}
	return d.begin(ctx, c, s, p)
}

// begin has a plan carried out as a task.
func (d *Door) begin(ctx context.Context, c *caller, s *sending, p *plan) (protocol.TaskID, error) {
	m := s.message
	p.write = s.write
	if m.Context == "" {
		m.Context = uuid.NewString()
	}
	kept := notes{History: []Message{m}, Grant: grant.Of(c.who()), Teller: d.opts.Node}
	if s.push != nil {
		config := *s.push
		if config.ID == "" {
			config.ID = uuid.NewString()
		}
		kept.Push = []receiver{receiverFor(c, config)}
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return "", err
	}
	env := c.env
	if env.TraceID == "" {
		env.TraceID = protocol.NewID()
	}
	call := &commands.Call{Principal: c.who(), Command: Command, TraceID: env.TraceID, Deadline: time.Now().Add(protocol.MaxTimeout), Door: d.opts.Name}
	tell := func(p tools.Progress) {
		call.Emit("task.progress", map[string]any{"percent": p.Percent, "message": p.Message})
	}
	known := m.ID
	if c.names {
		known = nameMark + m.Task
	}
	id, err := d.opts.Tasks.Converse(ctx, call, task.Dialogue{Context: m.Context, Agent: c.agent, Message: known, Notes: text},
		func(ctx context.Context) (json.RawMessage, error) { return d.carryOut(ctx, env, p, s.modes, tell) })
	if err == nil && s.push != nil {
		d.pushes.watch(c.env, id)
	}
	return id, err
}

// alone has messages of one id taken one after the other.
func (d *Door) alone(ctx context.Context, c *caller, message string) (free func(), err error) {
	key := string(c.who().Kind) + "\x00" + string(c.who().Home()) + "\x00" + c.who().ID + "\x00" + message
	for {
		d.mu.Lock()
		other, busy := d.sendings[key]
		if !busy {
			done := make(chan struct{})
			d.sendings[key] = done
			d.mu.Unlock()
			return func() {
				d.mu.Lock()
				delete(d.sendings, key)
				d.mu.Unlock()
				close(done)
			}, nil
		}
		d.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// repeated is the task that a message has begun that is sent again, "" of a new one.
func (d *Door) repeated(c *caller, m *Message) (protocol.TaskID, error) {
	for s := range d.opts.Tasks.Standings(c.who()) {
		if s.Dialogue.Message != m.ID || s.Dialogue.Agent != c.agent {
			continue
		}
		kept := notesOf(s)
		if len(kept.History) == 0 {
			return s.ID, nil
		}
		first := kept.History[0]
		if m.Context == "" {
			first.Context = ""
		}
		if !same(&first, m) {
			return "", invalid("message.messageId", "was that of another message of yours")
		}
		return s.ID, nil
	}
	return "", nil
}

// goOn takes a message that is for a task.
func (d *Door) goOn(ctx context.Context, c *caller, s *sending) (protocol.TaskID, error) {
	m := s.message
	now, err := d.standing(c, m.Task)
	if err != nil {
		return "", err
	}
	if m.Context != "" && m.Context != now.Dialogue.Context {
		return "", invalid("message.contextId", "is not that of the task")
	}
	m.Context = now.Dialogue.Context
	switch {
	case now.Over():
		return "", refusal(unsupportedOperation, "the task has ended and takes no more messages; send one without taskId", "taskId", m.Task)
	case now.State != task.Waiting:
		return "", refusal(unsupportedOperation, "the task works and takes no messages now", "taskId", m.Task)
	case now.Waits == nil:
		err = d.reply(ctx, c, now, &m)
	default:
		err = d.decide(ctx, c, now, &m)
	}
	if err != nil {
		return "", err
	}
	if s.push != nil {
		if _, err := d.pushes.add(ctx, c, now, *s.push); err != nil {
			return "", err
		}
	}
	return now.ID, d.opts.Tasks.Note(ctx, now.ID, edited(func(n *notes) error {
		n.History = append(n.History, m)
		n.History = n.History[max(0, len(n.History)-maxSaid):]
		return nil
	}))
}

// edited converts an edit of notes to one of their stored form.
func edited(edit func(*notes) error) func(json.RawMessage) (json.RawMessage, error) {
	return func(text json.RawMessage) (json.RawMessage, error) {
		var n notes
		if len(text) > 0 {
			if err := json.Unmarshal(text, &n); err != nil {
				return nil, protocol.Wrap(protocol.Internal, err, "the stored notes of the task cannot be read any more")
			}
		}
		if err := edit(&n); err != nil {
			return nil, err
		}
		return json.Marshal(n)
	}
}

// reply answers the question of a workflow to its user.
func (d *Door) reply(ctx context.Context, c *caller, now *task.Standing, m *Message) error {
	var texts []string
	for i := range m.Parts {
		switch p := &m.Parts[i]; {
		case p.Text != nil:
			texts = append(texts, *p.Text)
		case p.Data != nil:
			texts = append(texts, string(p.Data))
		default:
			return wrongType(p.MediaType)
		}
	}
	_, err := d.ask(ctx, c.env, "llm.run.continue", map[string]any{"run_id": now.Dialogue.Successor, "input": strings.Join(texts, "\n")})
	return err
}

// A decision is the part of a message's data about an approval.
type decision struct {
	Decision string `json:"decision"`
	Nonce    string `json:"nonce"`
	Reason   string `json:"reason"`
}

// decide handles the decision of a client about the approval of its own task. A denial
// withdraws its own call, which every client may do. An approval is a decision like any
// other: by the command, and so by policy.
func (d *Door) decide(ctx context.Context, c *caller, now *task.Standing, m *Message) error {
	var said decision
	for i := range m.Parts {
		if m.Parts[i].Data != nil {
			_ = json.Unmarshal(m.Parts[i].Data, &said) // other data leaves it empty
		}
	}
	switch said.Decision {
	case "deny":
		return d.cancel(ctx, c, now)
	case "approve":
		if said.Nonce == "" {
			return invalid("message.parts.data.nonce", "is required: it stands for what is approved")
		}
		_, err := d.ask(ctx, c.env, "approval.decide", map[string]any{
			"approval_id": now.Waits.Approval, "nonce": said.Nonce, "decision": "approve", "reason": said.Reason,
		})
		return err
	}
	return invalid("message.parts.data.decision", `must be "approve" or "deny": the task waits for an approval`)
}

// cancel ends a task where its work is done.
func (d *Door) cancel(ctx context.Context, c *caller, now *task.Standing) error {
	id := now.ID
	if now.Dialogue.Successor != "" {
		id = now.Dialogue.Successor
	}
	var err error
	if now.Work == runCommand {
		_, err = d.ask(ctx, c.env, "llm.run.cancel", map[string]any{"run_id": id})
	} else {
		_, err = d.ask(ctx, c.env, "task.cancel", map[string]any{"task_id": id, "reason": "cancelled by its client"})
	}
	return err
}
