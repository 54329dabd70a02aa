package app

import (
	"context"
	"encoding/json"
	"iter"
	"strings"

	"github.com/aibridge/aibridge/commands/task"
	"github.com/aibridge/aibridge/internal/store"
)

// sealedTasks is the table of tasks, in which what language models were asked
// to write is sealed: the results and the progress of their tasks.
type sealedTasks struct {
	*store.Table[task.Task]
	seals *sealSide
}

// A sealedValue stands where a value was.
type sealedValue struct {
	Sealed []byte `json:"sealed"`
}

// private reports whether a task's result is sealed.
func private(t *task.Task) bool { return strings.HasPrefix(t.Command, "llm.") }

// Create implements [task.Table].
func (s sealedTasks) Create(ctx context.Context, id string, t *task.Task) (revision uint64, err error) {
	if t, err = s.closed(id, t); err != nil {
		return 0, err
	}
	return s.Table.Create(ctx, id, t)
}

// Put implements [task.Table].
func (s sealedTasks) Put(ctx context.Context, id string, t *task.Task) (revision uint64, err error) {
	if t, err = s.closed(id, t); err != nil {
		return 0, err
	}
	return s.Table.Put(ctx, id, t)
}

// Get implements [task.Table].
func (s sealedTasks) Get(id string) (t *task.Task, revision uint64, ok bool) {
	if t, revision, ok = s.Table.Get(id); ok {
		t = s.opened(id, t)
	}
	return t, revision, ok
}

// All implements [task.Table].
func (s sealedTasks) All() iter.Seq2[string, *task.Task] {
	return func(yield func(string, *task.Task) bool) {
		for id, t := range s.Table.All() {
			if !yield(id, s.opened(id, t)) {
				return
			}
		}
	}
}

// closed is a task as it is stored.
func (s sealedTasks) closed(id string, t *task.Task) (*task.Task, error) {
	if !private(t) || len(t.Result) == 0 && t.Progress == nil {
		return t, nil
	}
	shut := *t
	var err error
	if shut.Result, err = s.close(id, t.Result); err != nil {
		return nil, err
	}
	if t.Progress != nil {
		progress := *t.Progress
		if progress.Data, err = s.close(id, progress.Data); err != nil {
			return nil, err
		}
		shut.Progress = &progress
	}
	return &shut, nil
}

// opened is a task as callers see it. What cannot be opened any more is null.
func (s sealedTasks) opened(id string, t *task.Task) *task.Task {
	if !private(t) || len(t.Result) == 0 && t.Progress == nil {
		return t
	}
	open := *t
	open.Result = s.open(id, t.Result)
	if t.Progress != nil {
		progress := *t.Progress
		progress.Data = s.open(id, progress.Data)
		open.Progress = &progress
	}
	return &open
}

func (s sealedTasks) close(id string, value json.RawMessage) (json.RawMessage, error) {
	if len(value) == 0 {
		return value, nil
	}
	sealed, err := s.seals.Seal(value, "task/"+id)
	if err != nil {
		return nil, err
	}
	return json.Marshal(sealedValue{sealed})
}

func (s sealedTasks) open(id string, value json.RawMessage) json.RawMessage {
	if len(value) == 0 {
		return value
	}
	var v sealedValue
	if err := json.Unmarshal(value, &v); err != nil || v.Sealed == nil {
		return json.RawMessage("null")
	}
	plain, err := s.seals.Open(v.Sealed, "task/"+id)
	if err != nil {
		return json.RawMessage("null")
	}
	return plain
}
