package task

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// A Dialogue is the conversation of a task that a message began.
type Dialogue struct {
	Context   string          `json:"context_id" doc:"the conversation that it belongs to"`
	Agent     string          `json:"agent,omitempty" doc:"the set of skills that the message was for; absent for the bridge"`
	Message   string          `json:"message_id" doc:"id of the message that began it"`
	Successor protocol.TaskID `json:"goes_on_as,omitempty" doc:"the task or run that does the work"`
	Changed   time.Time       `json:"changed_at" doc:"time at which it was handed over to that, or begun"`
	// Notes are the notes of the door about it: messages, and their recipients. They are stored
	// sealed, and never shown.
	Notes json.RawMessage `json:"notes,omitempty" doc:"not shown"`
}

// A HandOver is returned by the work of a task, as its error, when the work goes on
// as another task or a run: its outcome becomes the task's.
type HandOver struct{ To protocol.TaskID }

// Error implements error.
func (h *HandOver) Error() string { return "the work goes on as " + string(h.To) }

// A Standing is a task that a message began, as it is right now.
type Standing struct {
	Task
	// Work is the command that the successor runs, "" if there is none.
	Work string
}

// Over reports whether the task has ended.
func (s *Standing) Over() bool { return s.State.over() }

// Converse is [Service.Start] for a message.
func (s *Service) Converse(ctx context.Context, call *commands.Call, d Dialogue, do func(context.Context) (json.RawMessage, error)) (protocol.TaskID, error) {
	d.Changed = s.Now().UTC()
	return s.start(ctx, call, &d, do)
}

// Standing is a task that a message of the caller's began. To any other principal,
// administrators included, it does not exist.
func (s *Service) Standing(who *protocol.Principal, id protocol.TaskID) (*Standing, error) {
	t, _, ok := s.Tasks.Get(string(id))
	if !ok || t.Dialogue == nil || !t.owner().Is(who) {
		return nil, notFound(id)
	}
	return s.standing(t), nil
}

// Standings yields the tasks that messages of a principal began, in no order.
func (s *Service) Standings(who *protocol.Principal) iter.Seq[*Standing] {
	return func(yield func(*Standing) bool) {
		for _, t := range s.Tasks.All() {
			if t.Dialogue != nil && t.owner().Is(who) && !yield(s.standing(t)) {
				return
			}
		}
	}
}

// Dialogues yields the tasks that messages began, of all principals, in no order.
func (s *Service) Dialogues() iter.Seq[*Standing] {
	return func(yield func(*Standing) bool) {
		for _, t := range s.Tasks.All() {
			if t.Dialogue != nil && !yield(s.standing(t)) {
				return
			}
		}
	}
}

// Ended is closed when the work of a task has ended or was handed over, as far as
// this process does it.
func (s *Service) Ended(id protocol.TaskID) <-chan struct{} {
	if r := s.find(id); r != nil {
		return r.done
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

// Note changes the notes of a door about a task.
func (s *Service) Note(ctx context.Context, id protocol.TaskID, edit func(json.RawMessage) (json.RawMessage, error)) error {
	if r := s.find(id); r != nil {
		r.noting.Lock()
		defer r.noting.Unlock()
	}
	_, _, err := records.Change(ctx, s.Tasks, string(id), func(t *Task, _ uint64) (*Task, error) {
		if t == nil || t.Dialogue == nil {
			return nil, notFound(id)
		}
		notes, err := edit(t.Dialogue.Notes)
		if err != nil {
			return nil, err
		}
		changed, d := *t, *t.Dialogue
		d.Notes, changed.Dialogue = notes, &d
		return &changed, nil
	})
	return err
}

// noted is a run's task as it is now, with its notes, which are in the table alone.
func (s *Service) noted(r *run) *Task {
	now := r.now()
	if now.Dialogue == nil {
		return now
	}
	if kept, _, ok := s.Tasks.Get(string(r.id)); ok && kept.Dialogue != nil {
		with := *now
		with.Dialogue = kept.Dialogue
		return &with
	}
	return now
}

// handedOver is the task after its work was handed over to another one.
func (t *Task) handedOver(to protocol.TaskID, now time.Time) *Task {
	over, d := *t, *t.Dialogue
	d.Successor, d.Changed = to, now.UTC()
	over.State, over.Dialogue, over.Progress = Running, &d, nil
	return &over
}

// shown is the task without its notes.
func (t *Task) shown() *Task {
	if t.Dialogue == nil || t.Dialogue.Notes == nil {
		return t
	}
	shown, d := *t, *t.Dialogue
	d.Notes, shown.Dialogue = nil, &d
	return &shown
}

// hasSuccessor reports whether the work of the task is done by another.
func (t *Task) hasSuccessor() bool { return t.Dialogue != nil && t.Dialogue.Successor != "" }

// standing is a task as it is right now, with the state of its successor.
func (s *Service) standing(t *Task) *Standing {
	now := &Standing{Task: s.latest(t)}
	now.Dialogue = t.Dialogue // with the notes
	if !now.hasSuccessor() || now.State.over() {
		return now
	}
	next, ok := s.successor(now.Dialogue.Successor)
	if !ok {
		began := now.Dialogue.Changed
		now.State, now.Ended = Failed, &began
		now.Error = &Failure{Code: protocol.OutcomeUnknown, Message: "what became of it is not known any more", Details: map[string]any{}}
		return now
	}
	now.Work = next.Command
	now.State, now.Ended, now.Result, now.Error = next.State, next.Ended, next.Result, next.Error
	now.Progress, now.Waits, now.Group = next.Progress, next.Waits, next.Group
	return now
}

// successor is the task or run that does the work of another.
func (s *Service) successor(id protocol.TaskID) (*Task, bool) {
	for _, source := range s.Others {
		if t, ok := source.Get(id); ok {
			return t, true
		}
	}
	if s.Runs != nil {
		return s.Runs(id)
	}
	return nil, false
}
