package vfstest

import (
	"context"
	"iter"
	"maps"
	"sync"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// A Table is a [vfs.Table] in memory that tells of changes in order.
type Table[T any] struct {
	turn     sync.Mutex // one change at a time
	mu       sync.Mutex
	rows     map[string]row[T]
	revision uint64
	onChange []func(string, *T, *T)
}

type row[T any] struct {
	value    *T
	revision uint64
}

// NewTable makes an empty table.
func NewTable[T any]() *Table[T] { return &Table[T]{rows: make(map[string]row[T])} }

// Get implements [vfs.Table].
func (m *Table[T]) Get(key string) (*T, uint64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.rows[key]
	return r.value, r.revision, ok
}

// All implements [vfs.Table].
func (m *Table[T]) All() iter.Seq2[string, *T] {
	m.mu.Lock()
	defer m.mu.Unlock()
	rows := maps.Clone(m.rows)
	return func(yield func(string, *T) bool) {
		for key, r := range rows {
			if !yield(key, r.value) {
				return
			}
		}
	}
}

// OnChange implements [vfs.Table].
func (m *Table[T]) OnChange(fn func(string, *T, *T)) {
	for key, v := range m.All() {
		fn(key, nil, v)
	}
	m.onChange = append(m.onChange, fn)
}

// Create implements [vfs.Table].
func (m *Table[T]) Create(ctx context.Context, key string, v *T) (uint64, error) {
	return m.write(ctx, key, v, 0, protocol.AlreadyExists)
}

// Update implements [vfs.Table].
func (m *Table[T]) Update(ctx context.Context, key string, v *T, expect uint64) (uint64, error) {
	return m.write(ctx, key, v, expect, protocol.RevisionConflict)
}

// Delete implements [vfs.Table].
func (m *Table[T]) Delete(ctx context.Context, key string, expect uint64) error {
	_, err := m.write(ctx, key, nil, expect, protocol.RevisionConflict)
	return err
}

func (m *Table[T]) write(ctx context.Context, key string, v *T, expect uint64, code protocol.Code) (uint64, error) {
	if ctx.Err() != nil {
		return 0, protocol.Wrap(protocol.StoreUnavailable, ctx.Err(), "too late")
	}
	m.turn.Lock()
	defer m.turn.Unlock()
	m.mu.Lock()
	old := m.rows[key]
	if old.revision != expect {
		m.mu.Unlock()
		return 0, protocol.Errorf(code, "%s has revision %d", key, old.revision)
	}
	m.revision++
	revision := m.revision
	if v == nil {
		delete(m.rows, key)
	} else {
		m.rows[key] = row[T]{v, revision}
	}
	m.mu.Unlock()
	for _, fn := range m.onChange {
		fn(key, old.value, v)
	}
	return revision, nil
}

// Forget makes the table forget its listeners, as when the process is gone that
// listened.
func (m *Table[T]) Forget() { m.onChange = nil }

// Lose removes a record without telling anybody.
func (m *Table[T]) Lose(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.rows, key)
}

// Atomic makes changes of a table one after the other, if none has changed
// before the first.
func Atomic(m *Table[vfs.Record]) func(context.Context, []vfs.Change) error {
	return func(ctx context.Context, changes []vfs.Change) error {
		for _, c := range changes {
			if _, revision, _ := m.Get(c.Key); revision != c.Revision {
				return protocol.Errorf(protocol.RevisionConflict, "%s has changed", c.Key)
			}
		}
		for _, c := range changes {
			if _, err := m.Update(ctx, c.Key, c.Record, c.Revision); err != nil {
				return err
			}
		}
		return nil
	}
}
