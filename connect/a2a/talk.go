package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Times of asking an agent about a task.
const (
	firstPause   = 250 * time.Millisecond // before it is asked the first time
	longestPause = 10 * time.Second
	patience     = time.Minute      // without an answer
	farewell     = 10 * time.Second // for the request to cancel
)

// skillKey says in the metadata of a message which skill of its card the agent is
// asked for. A2A has no field for that.
const skillKey = "urn:aibridge:a2a:skill:v1"

// A sending is a request with a message to an agent.
type sending struct {
	Tenant        string   `json:"tenant,omitempty"`
	Message       outgoing `json:"message"`
	Configuration struct {
		Immediately bool `json:"returnImmediately"`
	} `json:"configuration"`
}

type outgoing struct {
	ID       string           `json:"messageId"`
	Task     string           `json:"taskId,omitempty"`
	Context  string           `json:"contextId,omitempty"`
	Role     string           `json:"role"`
	Parts    []map[string]any `json:"parts"`
	Metadata map[string]any   `json:"metadata,omitempty"`

	single bool // it is a call by itself, which nothing goes on with
}

// A talk is one message to an agent and its outcome.
type talk struct {
	way    way
	tenant string
	stream bool              // the agent streams
	tell   func(text string) // takes the agent's progress

	task, context string
	state         taskState
	said          *remoteMessage // with the state
	answer        *remoteMessage // instead of a task
	artifacts     []artifact
	weight        int // of these, in bytes
	cut           bool
	progress      string // told last
	// doubts counts the ignored answers with a task that still waits: agents begin
	// the answer to a continuing message with the task as it was before.
	doubts int
}

// mostDoubts leaves an agent time to go on.
const mostDoubts = 3

// run sends a message and returns its outcome. When ctx ends first, the agent is
// asked to cancel.
func (t *talk) run(ctx context.Context, m outgoing) (*Result, *protocol.Error) {
	t.task = m.Task
	err := t.converse(ctx, m)
	if ctx.Err() != nil && t.answer == nil && !t.state.rests() {
		return nil, t.leave(ctx)
	}
	if err != nil {
		return nil, told(err)
	}
	return t.result()
}

// converse sends a message and hears the agent until its task rests.
func (t *talk) converse(ctx context.Context, m outgoing) error {
	s := sending{Tenant: t.tenant, Message: m}
	s.Configuration.Immediately = true
	var err error
	if t.stream {
		err = t.way.stream(ctx, "SendStreamingMessage", s, t.take)
	} else {
		var result json.RawMessage
		if result, err = t.way.call(ctx, "SendMessage", s); err == nil {
			t.take(result)
		}
	}
	switch {
	case t.answer != nil || t.state.rests():
		return nil
	case t.state == "" && err != nil: // nothing was heard
		return err
	case t.task == "" || t.state == "" && err == nil:
		return &lost{true, "its answer is neither a message nor a task"}
	}
	return t.follow(ctx)
}

// follow asks for the task until it rests.
func (t *talk) follow(ctx context.Context) error {
	pause, last := firstPause, time.Now()
	for {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return &lost{true, "the call ended before it was done"}
		case <-timer.C:
		}
		pause = min(2*pause, longestPause)
		result, err := t.way.call(ctx, "GetTask", naming{Tenant: t.tenant, ID: t.task})
		var refused *refusal
		switch {
		case errors.As(err, &refused) && refused.code == codeTaskNotFound:
			return &lost{true, "it does not know of it any more"}
		case err != nil && time.Since(last) > patience:
			return &lost{true, "it does not tell any more what became of it"}
		case err != nil:
			continue
		}
		last = time.Now()
		task := new(remoteTask)
		if json.Unmarshal(result, task) == nil && task.ID == t.task {
			t.hear(&heard{Task: task})
		}
		if t.state.rests() {
			return nil
		}
	}
}

// take hears an answer or an event, and reports whether more is wanted.
func (t *talk) take(result json.RawMessage) bool {
	h := new(heard)
	if json.Unmarshal(result, h) != nil {
		return true // an unreadable answer says nothing
	}
	t.hear(h)
	return t.answer == nil && !t.state.rests()
}

// hear takes a message from an agent. One about another task is ignored.
func (t *talk) hear(h *heard) {
	switch {
	case h.Message != nil:
		t.answer, t.context = h.Message, h.Message.Context
		if h.Message.Task != "" {
			t.task = h.Message.Task
		}
	case h.Task != nil && t.is(h.Task.ID):
		t.context = h.Task.Context
		t.artifacts, t.weight = nil, 0
		for _, a := range h.Task.Artifacts {
			t.add(a, false)
		}
		now := h.Task.Status
		if t.doubts > 0 && (now.State == inputRequired || now.State == authRequired) {
			t.doubts--
			now = status{State: working}
		}
		t.becomes(now)
	case h.Status != nil && t.is(h.Status.Task):
		t.context = h.Status.Context
		t.becomes(h.Status.Status)
	case h.Artifact != nil && t.is(h.Artifact.Task):
		t.add(h.Artifact.Artifact, h.Artifact.Append)
		if t.state == "" {
			t.state = working
		}
	}
}

// is reports whether the talk is about a task. The first that is heard of is it,
// unless the message was for one.
func (t *talk) is(task string) bool {
	if t.task == "" && len(task) <= 256 {
		t.task = task
	}
	return task != "" && task == t.task
}

func (t *talk) becomes(s status) {
	if s.State == "" || t.state.rests() {
		return
	}
	t.state, t.said = s.State, s.Message
	if text := s.Message.words(maxSaid); !s.State.rests() && text != "" && text != t.progress {
		t.progress = text
		t.tell(text)
	}
}

// add takes an artifact, in place of an older one or behind it.
func (t *talk) add(a artifact, behind bool) {
	for i := range a.Parts {
		p := &a.Parts[i]
		t.weight += len(p.Raw) + len(p.Data) + len(p.URL) + 64
		if p.Text != nil {
			t.weight += len(*p.Text)
		}
	}
	at := slices.IndexFunc(t.artifacts, func(o artifact) bool { return o.ID == a.ID })
	switch {
	case t.weight > maxText+2*maxData || at < 0 && len(t.artifacts) == maxParts:
		t.cut = true
	case at < 0:
		t.artifacts = append(t.artifacts, a)
	case behind:
		t.artifacts[at].Parts = append(t.artifacts[at].Parts, a.Parts...)
	default:
		t.artifacts[at] = a
	}
}

// result is the outcome of the message.
func (t *talk) result() (*Result, *protocol.Error) {
	r := &Result{State: t.state, task: t.task, context: t.context}
	g := gathering{cut: t.cut}
	if t.answer != nil {
		r.State = completed
		g.add(t.answer.Parts)
		g.into(r)
		return r, nil
	}
	why := t.said.words(maxSaid)
	switch t.state {
	case failed:
		return nil, protocol.Errorf(protocol.Internal, "the agent has failed: %q", why)
	case rejected:
		return nil, protocol.Errorf(protocol.TargetUnavailable, "the agent rejects the message: %q", why)
	case canceled:
		return nil, protocol.Errorf(protocol.Cancelled, "the agent has cancelled its task: %q", why)
	}
	for i := range t.artifacts {
		g.add(t.artifacts[i].Parts)
	}
	if t.said != nil {
		g.add(t.said.Parts)
	}
	g.into(r)
	return r, nil
}

// leave asks the agent to cancel the task, since the caller waits no longer.
func (t *talk) leave(ctx context.Context) *protocol.Error {
	if t.task != "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		result, err := t.way.call(ctx, "CancelTask", naming{Tenant: t.tenant, ID: t.task})
		task := new(remoteTask)
		if err == nil && json.Unmarshal(result, task) == nil && task.Status.State == canceled {
			return protocol.Errorf(protocol.Cancelled, "the agent has cancelled its task")
		}
	}
	return protocol.Errorf(protocol.OutcomeUnknown, "the call ended while the agent worked on it: it may have acted")
}
