// Package recordstest has a table of records for tests, as strict as the one of
// the bridge.
package recordstest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"runtime"
	"sync"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// A Memory is a table in memory. A record comes out of it as out of a store: as
// another value that has passed through the encoding, so that a field which is
// not encoded is lost. It outlives the services of a test, as a store does.
type Memory[T any] struct {
	changing sync.Mutex // held while a change is made and reported
	tell     []func(key string, old, new *T)

	mu       sync.Mutex
	before   func(key string)
	broken   error
	failing  int // writes that fail from now on
	yielding bool
	rows     map[string]row[T]
	removed  map[string]bool
	revision uint64
	writes   int
}

type row[T any] struct {
	value    *T
	revision uint64
}

var _ records.Table[int] = (*Memory[int])(nil)

// New returns an empty table.
func New[T any]() *Memory[T] {
	return &Memory[T]{rows: make(map[string]row[T]), removed: make(map[string]bool)}
}

// Break makes every write fail from now on, or with nil none.
func (m *Memory[T]) Break(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = err
}

// BreakNext makes the next n writes fail.
func (m *Memory[T]) BreakNext(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failing = n
}

// Yield has every write let others go first, so that they meet.
func (m *Memory[T]) Yield() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.yielding = true
}

// Clear removes everything without reporting it: the changes were made after the
// process died.
func (m *Memory[T]) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.rows)
}

// Lose removes a record without reporting it.
func (m *Memory[T]) Lose(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.rows, key)
}

// Before has fn called before the next write, once, to change something between a
// read and a write of the tested code.
func (m *Memory[T]) Before(fn func(key string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before = fn
}

// Restart forgets the listeners to changes, as the end of a process does.
func (m *Memory[T]) Restart() {
	m.changing.Lock()
	defer m.changing.Unlock()
	m.tell = nil
}

// Writes is the number of changes that were made.
func (m *Memory[T]) Writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}

// Get implements [records.Table].
func (m *Memory[T]) Get(key string) (value *T, revision uint64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.rows[key]
	return r.value, r.revision, ok
}

// All implements [records.Table].
func (m *Memory[T]) All() iter.Seq2[string, *T] {
	m.mu.Lock()
	rows := maps.Clone(m.rows)
	m.mu.Unlock()
	return func(yield func(string, *T) bool) {
		for key, r := range rows {
			if !yield(key, r.value) {
				return
			}
		}
	}
}

// Len implements [records.Table].
func (m *Memory[T]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.rows)
}

// OnChange implements [records.Table].
func (m *Memory[T]) OnChange(fn func(key string, old, new *T)) {
	m.changing.Lock()
	defer m.changing.Unlock()
	for key, v := range m.All() {
		fn(key, nil, v)
	}
	m.tell = append(m.tell, fn)
}

// Create implements [records.Table].
func (m *Memory[T]) Create(ctx context.Context, key string, v *T) (uint64, error) {
	return m.store(ctx, key, v, func(_ uint64, there bool) error {
		if there {
			return protocol.Errorf(protocol.AlreadyExists, "%s exists", key)
		}
		return nil
	})
}

// CreateOnce is the one of the store's tables: [Memory.Create] of a key that has held
// nothing.
func (m *Memory[T]) CreateOnce(ctx context.Context, key string, v *T) (uint64, error) {
	return m.store(ctx, key, v, func(_ uint64, there bool) error {
		if there || m.removed[key] {
			return protocol.Errorf(protocol.AlreadyExists, "%s exists, or did", key)
		}
		return nil
	})
}

// Put implements [records.Table].
func (m *Memory[T]) Put(ctx context.Context, key string, v *T) (uint64, error) {
	return m.store(ctx, key, v, func(uint64, bool) error { return nil })
}

// Update implements [records.Table].
func (m *Memory[T]) Update(ctx context.Context, key string, v *T, expect uint64) (uint64, error) {
	return m.store(ctx, key, v, func(held uint64, there bool) error {
		if !there || held != expect {
			return protocol.Errorf(protocol.RevisionConflict, "%s has revision %d", key, held)
		}
		return nil
	})
}

// Delete implements [records.Table].
func (m *Memory[T]) Delete(ctx context.Context, key string, expect uint64) error {
	_, err := m.change(ctx, key, nil, func(held uint64, there bool) error {
		switch {
		case !there:
			return protocol.Errorf(protocol.NotFound, "no %s", key)
		case expect != 0 && held != expect:
			return protocol.Errorf(protocol.RevisionConflict, "%s has revision %d", key, held)
		}
		return nil
	})
	return err
}

func (m *Memory[T]) store(ctx context.Context, key string, v *T, check func(held uint64, there bool) error) (uint64, error) {
	if v == nil || key == "" {
		return 0, errors.New("recordstest: no key, or no record")
	}
	var encoded bytes.Buffer
	if err := records.Encode(&encoded, v); err != nil {
		return 0, err
	}
	kept := new(T)
	if err := records.Decode(encoded.Bytes(), kept); err != nil {
		return 0, err
	}
	return m.change(ctx, key, kept, check)
}

func (m *Memory[T]) change(ctx context.Context, key string, v *T, check func(held uint64, there bool) error) (uint64, error) {
	m.interfere(key)
	m.changing.Lock()
	defer m.changing.Unlock()
	if err := cmp.Or(ctx.Err(), m.fault()); err != nil {
		return 0, err
	}
	old, revision, err := m.set(key, v, check)
	if err != nil {
		return 0, err
	}
	for _, fn := range m.tell {
		fn(key, old, v)
	}
	return revision, nil
}

func (m *Memory[T]) fault() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failing > 0 {
		m.failing--
		return protocol.Errorf(protocol.StoreUnavailable, "the store is away")
	}
	return m.broken
}

func (m *Memory[T]) interfere(key string) {
	m.mu.Lock()
	fn, yielding := m.before, m.yielding
	m.before = nil
	m.mu.Unlock()
	if yielding {
		runtime.Gosched()
	}
	if fn != nil {
		fn(key)
	}
}

func (m *Memory[T]) set(key string, v *T, check func(held uint64, there bool) error) (old *T, revision uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, there := m.rows[key]
	if err := check(r.revision, there); err != nil {
		return nil, 0, err
	}
	m.revision++
	m.writes++
	if v == nil {
		delete(m.rows, key)
		m.removed[key] = true
	} else {
		m.rows[key] = row[T]{v, m.revision}
	}
	return r.value, m.revision, nil
}
