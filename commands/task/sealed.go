package task

import (
	"context"
	"encoding/json"
	"iter"
	"strings"

	"github.com/aibridge/aibridge/internal/records"
)

// A Sealer encrypts records, each bound to its purpose.
type Sealer interface {
	Seal(plain []byte, purpose string) ([]byte, error)
	Open(sealed []byte, purpose string) ([]byte, error)
}

// Sealed is a table of tasks that seals their private content: the results and the
// progress of tasks for language models, the messages of dialogues, and their notes.
// Tasks go in and come out in the open. A value that cannot be opened any more comes out
// as null.
func Sealed(table records.Table[Task], sealer Sealer) records.Table[Task] {
	return sealedTable{table, sealer}
}

type sealedTable struct {
	records.Table[Task]
	sealer Sealer
}

// A sealedValue is a value in its sealed form.
type sealedValue struct {
	Sealed []byte `json:"sealed"`
}

// private reports whether a task's result is sealed.
func private(t *Task) bool {
	return t != nil && (strings.HasPrefix(t.Command, "llm.") || t.Dialogue != nil)
}

// bare reports whether there is nothing to seal in a task.
func bare(t *Task) bool {
	return len(t.Result) == 0 && t.Progress == nil && (t.Dialogue == nil || len(t.Dialogue.Notes) == 0)
}

// Create implements [records.Table].
func (s sealedTable) Create(ctx context.Context, id string, t *Task) (revision uint64, err error) {
	if t, err = s.closed(id, t); err != nil {
		return 0, err
	}
	return s.Table.Create(ctx, id, t)
}

// Put implements [records.Table].
func (s sealedTable) Put(ctx context.Context, id string, t *Task) (revision uint64, err error) {
	if t, err = s.closed(id, t); err != nil {
		return 0, err
	}
	return s.Table.Put(ctx, id, t)
}

// Update implements [records.Table].
func (s sealedTable) Update(ctx context.Context, id string, t *Task, expect uint64) (revision uint64, err error) {
	if t, err = s.closed(id, t); err != nil {
		return 0, err
	}
	return s.Table.Update(ctx, id, t, expect)
}

// Get implements [records.Table].
func (s sealedTable) Get(id string) (t *Task, revision uint64, ok bool) {
	if t, revision, ok = s.Table.Get(id); ok {
		t = s.opened(id, t)
	}
	return t, revision, ok
}

// All implements [records.Table].
func (s sealedTable) All() iter.Seq2[string, *Task] {
	return func(yield func(string, *Task) bool) {
		for id, t := range s.Table.All() {
			if !yield(id, s.opened(id, t)) {
				return
			}
		}
	}
}

// OnChange implements [records.Table].
func (s sealedTable) OnChange(fn func(id string, old, now *Task)) {
	s.Table.OnChange(func(id string, old, now *Task) { fn(id, s.opened(id, old), s.opened(id, now)) })
}

// closed is a task as it is stored.
func (s sealedTable) closed(id string, t *Task) (*Task, error) {
	if !private(t) || bare(t) {
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
	if t.Dialogue != nil {
		d := *t.Dialogue
		if d.Notes, err = s.close(id, d.Notes); err != nil {
			return nil, err
		}
		shut.Dialogue = &d
	}
	return &shut, nil
}

// opened is a task as callers see it. A value that cannot be opened any more is
// null.
func (s sealedTable) opened(id string, t *Task) *Task {
	if !private(t) || bare(t) {
		return t
	}
	open := *t
	open.Result = s.open(id, t.Result)
	if t.Progress != nil {
		progress := *t.Progress
		progress.Data = s.open(id, progress.Data)
		open.Progress = &progress
	}
	if t.Dialogue != nil {
		d := *t.Dialogue
		d.Notes = s.open(id, d.Notes)
		open.Dialogue = &d
	}
	return &open
}

func (s sealedTable) close(id string, value json.RawMessage) (json.RawMessage, error) {
	if len(value) == 0 {
		return value, nil
	}
	sealed, err := s.sealer.Seal(value, "task/"+id)
	if err != nil {
		return nil, err
	}
	return json.Marshal(sealedValue{sealed})
}

func (s sealedTable) open(id string, value json.RawMessage) json.RawMessage {
	if len(value) == 0 {
		return value
	}
	var v sealedValue
	if err := json.Unmarshal(value, &v); err != nil || v.Sealed == nil {
		return json.RawMessage("null")
	}
	plain, err := s.sealer.Open(v.Sealed, "task/"+id)
	if err != nil {
		return json.RawMessage("null")
	}
	return plain
}
