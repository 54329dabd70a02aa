package parked

import (
	"encoding/json"
	"iter"

	"github.com/aibridge/aibridge/protocol"
)

// A View is a task with its result opened.
type View struct {
	*Record
	Result json.RawMessage // nil for none
}

// Get returns a task with its result.
func (s *Service) Get(id protocol.TaskID) (View, bool) {
	r, _, ok := s.opts.Tasks.Get(string(id))
	if !ok {
		return View{}, false
	}
	v := View{Record: s.shown(r)}
	if r.Failure != nil {
		open := *r
		open.Failure = s.opened(id, r.Failure)
		v.Record = &open
	}
	if r.State == Succeeded {
		v.Result, _ = s.open(id, r.Result) // nil if it cannot be read any more
	}
	return v, true
}

// shown is the record of a task for its readers: as running once its approval was used,
// which the stored record may not tell yet.
func (s *Service) shown(r *Record) *Record {
	if r.State == Running || !s.underWay(r) {
		return r
	}
	running := *r
	running.State = Running
	return &running
}

// Principal is the current principal of a task's credential.
func (s *Service) Principal(id protocol.TaskID) (*protocol.Principal, error) {
	r, _, ok := s.opts.Tasks.Get(string(id))
	if !ok {
		return nil, protocol.Errorf(protocol.NotFound, "no task %q", id).With("task_id", id)
	}
	return s.opts.Grants.Principal(r.Grant)
}

// All yields every task, without results.
func (s *Service) All() iter.Seq[View] {
	return func(yield func(View) bool) {
		for _, r := range s.opts.Tasks.All() {
			if !yield(View{Record: s.shown(r)}) {
				return
			}
		}
	}
}

// An endEvent is the data of task.succeeded, task.failed and task.cancelled.
type endEvent struct {
	Task    protocol.TaskID `json:"task_id"`
	Command string          `json:"command"`
	State   State           `json:"state"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Failure        `json:"error,omitempty"`
}

// publishEnd publishes the end of a task.
func (s *Service) publishEnd(r *Record, result json.RawMessage) {
	s.publish(r, "task."+string(r.State), endEvent{r.ID, r.Command, r.State, result, s.opened(r.ID, r.Failure)})
}
