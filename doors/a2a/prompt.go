package a2a

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands/task"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// A Prompt is a message to an agent at a door for text: the other side sees no task,
// but one exchange until the end.
type Prompt struct {
	Principal   *protocol.Principal
	ID          string // of the prompt: a repeated one has no effect
	Agent       string // addressed set of skills, "" for the bridge
	Text        string // a sentence, or one JSON object like the data of a message
	Traceparent string // W3C trace context, "" without one

	// Tell receives the text of the answer as it comes, and files. It is called by one
	// goroutine at a time.
	Tell func(text string, files []Part)
	// Ask puts a question to the sender of the prompt, and returns the answer.
	Ask func(ctx context.Context, question string) (string, error)
}

// Bounds of conversations.
const (
	maxWaiting  = 10 * time.Minute // for one decision or answer
	maxMistaken = 3                // invalid answers
)

// Prompt has an agent answer, and returns when it has: nil, or why it did not. The
// work is a task as of any message; if it waits longer than this door does, it is
// still there.
func (d *Door) Prompt(ctx context.Context, p *Prompt) error {
	party := fair.Of(p.Principal)
	if full := d.places.TryAcquire(party, 1); full != nil {
		return full
	}
	defer d.places.Release(party, 1)
	ctx, release := grant.While(ctx, d.opts.Grants, grant.Of(p.Principal))
	defer release()
	c := &caller{env: tools.Environment{Principal: p.Principal, Space: p.Principal.Home(), Traceparent: p.Traceparent}, agent: p.Agent}
	if d.known(ctx, c) != nil {
		return protocol.Errorf(protocol.NotFound, "there is no such agent here, or none for you")
	}
	t := &talk{door: d, prompt: p, caller: c}
	id, err := d.send(ctx, c, &sending{message: Message{ID: p.ID, Role: roleUser, Parts: []Part{wordsOf(p.Text)}}, write: t.write})
	if err != nil {
		return said(err)
	}
	for over := false; !over && err == nil; {
		over, err = t.follow(ctx, id)
	}
	return said(err)
}

// wordsOf are the words of a prompt as the part of a message.
func wordsOf(text string) Part {
	if trimmed := strings.TrimSpace(text); strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed)) {
		return dataPart(json.RawMessage(trimmed))
	}
	return textPart(text)
}

// said converts an error to one of the bridge.
func said(err error) error {
	e, ok := err.(*Error)
	switch {
	case !ok:
		return err // of the bridge, or none
	case e.cause != nil:
		return e.cause
	case e.kind == taskNotFound:
		return protocol.Errorf(protocol.NotFound, "%s", e.Message)
	}
	return protocol.Errorf(protocol.InvalidParameter, "%s", e.Message)
}

// A talk is one exchange: a prompt, and the answer so far.
type talk struct {
	door   *Door
	prompt *Prompt
	caller *caller
	asked  *Status // last status with a question

	mu      sync.Mutex
	written strings.Builder // by the model, as it came
	told    bool            // of an artifact
}

// write passes the words of the model on.
func (t *talk) write(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written.WriteString(text)
	t.prompt.Tell(text, nil)
}

// follow listens to the task until it is over, or the events end before. Questions of
// the task are asked meanwhile; another decider may answer them first.
func (t *talk) follow(ctx context.Context, id protocol.TaskID) (over bool, err error) {
	l, leave, err := t.door.feeds.listen(ctx, t.caller.env, id)
	if err != nil {
		return false, err
	}
	defer leave()
	patience := time.NewTimer(maxWaiting)
	defer patience.Stop()
	var state TaskState
	var answered <-chan error // of the question that is asked, nil while none is
	withdraw := func() {}
	defer func() { withdraw() }()
	for {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-t.door.opts.Leaving.Done():
			return false, protocol.Errorf(protocol.ShuttingDown, "the bridge is shutting down; task.get returns the outcome of the task later").With("task_id", id)
		case <-patience.C:
			if state.interrupted() {
				return false, protocol.Errorf(protocol.InvalidState, "the question of the task got no answer; the task is still waiting").With("task_id", id)
			}
			patience.Reset(maxWaiting)
		case err := <-answered:
			if err != nil {
				return false, err
			}
			answered = nil
		case event, more := <-l.events:
			if !more {
				return t.end(ctx, id)
			}
			status := event.status()
			if status == nil {
				continue
			}
			state = status.State
			patience.Reset(maxWaiting)
			if same(status, t.asked) {
				continue
			}
			withdraw()
			if answered = nil; state == InputRequired {
				t.asked = status
				answered, withdraw = t.begin(ctx, id, status)
			}
		}
	}
}

// begin asks the question of a waiting task, until it is answered or withdrawn.
func (t *talk) begin(ctx context.Context, id protocol.TaskID, s *Status) (answered <-chan error, withdraw func()) {
	ctx, withdraw = context.WithCancel(ctx)
	outcome := make(chan error, 1)
	go func() { outcome <- t.ask(ctx, id, s) }()
	return outcome, withdraw
}

// ask puts the question of a waiting task to the sender of the prompt, and answers the
// task.
func (t *talk) ask(ctx context.Context, id protocol.TaskID, s *Status) error {
	q := questionOf(s)
	for range maxMistaken {
		words, err := t.prompt.Ask(ctx, q.text)
		if err != nil {
			return err
		}
		part, ok := q.answer(words)
		if !ok {
			continue
		}
		m := Message{ID: protocol.NewID(), Task: string(id), Role: roleUser, Parts: []Part{part}}
		_, err = t.door.send(ctx, t.caller, &sending{message: m})
		if now, gone := t.door.standing(t.caller, string(id)); err != nil && gone == nil && now.State != task.Waiting {
			return nil // another answer came first
		}
		return err
	}
	return protocol.InvalidParam("answer", `must be "approve" or "deny"`)
}

// A question is the question of a waiting task, in words.
type question struct {
	text  string
	nonce string // of an approval's question, "" for others
}

func questionOf(s *Status) question {
	var q question
	var texts []string
	for i := range s.Message.Parts {
		p := &s.Message.Parts[i]
		var approval struct {
			Nonce     string          `json:"nonce"`
			Tool      string          `json:"tool"`
			Arguments json.RawMessage `json:"arguments"`
			Why       string          `json:"why"`
		}
		switch {
		case p.Text != nil:
			texts = append(texts, *p.Text)
		case json.Unmarshal(p.Data, &approval) == nil && approval.Nonce != "":
			q.nonce = approval.Nonce
			texts = append(texts, approval.Tool+" "+string(approval.Arguments))
			if approval.Why != "" {
				texts = append(texts, approval.Why)
			}
			texts = append(texts, `Answer "approve" or "deny".`)
		}
	}
	q.text = strings.Join(texts, "\n")
	return q
}

// answer is a reply as the part of a message, if it answers the question.
func (q *question) answer(words string) (Part, bool) {
	if q.nonce == "" {
		return textPart(words), true
	}
	decision := ""
	switch strings.ToLower(strings.TrimSpace(words)) {
	case "approve", "yes", "y":
		decision = "approve"
	case "deny", "no", "n":
		decision = "deny"
	default:
		return Part{}, false
	}
	text, err := json.Marshal(map[string]string{"decision": decision, "nonce": q.nonce})
	return dataPart(text), err == nil
}

// end passes on the outcome of a task, if it is over.
func (t *talk) end(ctx context.Context, id protocol.TaskID) (over bool, err error) {
	s, err := t.door.standing(t.caller, string(id))
	if err != nil {
		return false, err
	}
	outcome := t.door.form(ctx, t.caller.env, s)
	switch state := outcome.Status.State; {
	case !state.terminal():
		return false, nil
	case state != Completed && s.Error != nil:
		return true, protocol.Errorf(s.Error.Code, "%s", s.Error.Message)
	case state != Completed:
		return true, protocol.Errorf(protocol.Internal, "%s", questionOf(&outcome.Status).text)
	}
	for i := range outcome.Artifacts {
		t.tell(outcome.Artifacts[i].Parts)
	}
	return true, nil
}

// tell passes on the parts of an artifact that were not written before.
func (t *talk) tell(parts []Part) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var texts []string
	var files []Part
	for i := range parts {
		switch p := &parts[i]; {
		case p.Text != nil:
			texts = append(texts, *p.Text)
		case p.Data != nil:
			texts = append(texts, string(p.Data))
		default:
			files = append(files, *p)
		}
	}
	text, written := strings.Join(texts, "\n"), t.written.String()
	t.written.Reset()
	switch {
	case written != "" && strings.HasSuffix(written, text):
		text = ""
	case written != "" && strings.HasPrefix(text, written):
		text = text[len(written):]
	case written != "" || t.told:
		text = "\n" + text
	}
	t.told = true
	if text != "" || len(files) > 0 {
		t.prompt.Tell(text, files)
	}
}
