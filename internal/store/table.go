package store

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/aibridge/aibridge/protocol"
)

// A Table is one kind of thing in the registry, by key. Keys are any
// non-empty strings, "space/id" by custom. A *T that went into a table or came out
// of it is shared by all users of the table and must never be changed: to change a
// value, store another.
//
// All methods may be called at the same time by many goroutines.
type Table[T any] struct {
	store  *Store
	prefix string
	vital  bool
	err    error // the fault of the declaration

	entries  sync.Map // string → *entry[T]
	count    atomic.Int64
	onChange []func(key string, old, new *T) // guarded by the view's mutex
}

type entry[T any] struct {
	value    *T
	revision uint64
	round    uint32 // in which the view met it last; the view's own
}

// NewTable declares the table whose keys are stored under prefix, a short
// lower-case name. It comes before [Store.Load]. A fault of the
// declaration is reported by Load and by every write.
func NewTable[T any](s *Store, prefix string) *Table[T] {
	t := &Table[T]{store: s, prefix: prefix}
	t.err = s.declare(t)
	return t
}

// Get returns the value of a key and its revision. It reads memory only.
func (t *Table[T]) Get(key string) (value *T, revision uint64, ok bool) {
	e, ok := t.entries.Load(key)
	if !ok {
		return nil, 0, false
	}
	found := e.(*entry[T])
	return found.value, found.revision, true
}

// Peek asks the registry itself for the value of a key, nil for none. It works
// before [Store.Load], and takes a round trip.
func (t *Table[T]) Peek(ctx context.Context, key string) (*T, error) {
	subject, err := t.store.subject(t.prefix, key)
	if err != nil {
		return nil, err
	}
	m, err := lastMessage(ctx, t.store.state, t.store.names.registry, subject)
	if err != nil {
		return nil, unavailable(err)
	}
	if m == nil {
		return nil, nil
	}
	header, err := nats.DecodeHeadersMsg(m.Header)
	if len(m.Header) > 0 && (err != nil || isDeletion(header)) {
		return nil, err
	}
	v, err := decodeRecord[T](m.Data)
	if err != nil {
		return nil, &integrityError{subject: subject, revision: m.Sequence, err: err}
	}
	return v, nil
}

// All yields every key and value, in no order. Changes made meanwhile may be
// seen or not.
func (t *Table[T]) All() iter.Seq2[string, *T] {
	return func(yield func(string, *T) bool) {
		t.entries.Range(func(key, e any) bool {
			return yield(key.(string), e.(*entry[T]).value)
		})
	}
}

// Len is the number of keys.
func (t *Table[T]) Len() int { return int(t.count.Load()) }

// OnChange has f called after every change of the view, in the order of the
// changes: old is nil for a new key, new is nil for a removed one. Before Load
// it is declared once for everything to come; later, f is first called for every
// existing key. f must not block and must not write to the store, which would wait
// for f.
func (t *Table[T]) OnChange(f func(key string, old, new *T)) {
	t.store.view.mu.Lock()
	defer t.store.view.mu.Unlock()
	for key, v := range t.All() {
		f(key, nil, v)
	}
	t.onChange = append(t.onChange, f)
}

// Create stores v at a key that holds nothing; 3002 if it holds something.
func (t *Table[T]) Create(ctx context.Context, key string, v *T) (revision uint64, err error) {
	return t.store.write(ctx, t.CreateOp(key, v))
}

// CreateOnce stores v at a key that holds nothing and has held nothing for ten minutes;
// 3002 otherwise. It may be repeated when its outcome is unknown: if it was stored, and
// removed since, it is not stored again.
func (t *Table[T]) CreateOnce(ctx context.Context, key string, v *T) (revision uint64, err error) {
	op := t.CreateOp(key, v)
	op.once = true
	return t.store.write(ctx, op)
}

// Put stores v at key, in place of any other value.
func (t *Table[T]) Put(ctx context.Context, key string, v *T) (revision uint64, err error) {
	return t.store.write(ctx, t.PutOp(key, v, 0))
}

// Update stores v at key if it holds the revision expect; else 3003. The view
// then has the present record, so that the caller can look and try again.
func (t *Table[T]) Update(ctx context.Context, key string, v *T, expect uint64) (revision uint64, err error) {
	if expect == 0 {
		return 0, protocol.Errorf(protocol.RevisionConflict, "%s %s: no revision given", t.prefix, key)
	}
	return t.store.write(ctx, t.PutOp(key, v, expect))
}

// Delete removes key; 3001 if it holds nothing, 3003 if expect is not zero
// and not the revision it holds.
func (t *Table[T]) Delete(ctx context.Context, key string, expect uint64) error {
	_, err := t.store.write(ctx, t.DeleteOp(key, expect))
	return err
}

// CreateOp is [Table.Create] as part of [Store.Atomic].
func (t *Table[T]) CreateOp(key string, v *T) Op { return t.op(opCreate, key, v, 0) }

// PutOp is [Table.Update] as part of [Store.Atomic], or [Table.Put] if expect
// is zero.
func (t *Table[T]) PutOp(key string, v *T, expect uint64) Op {
	if expect == 0 {
		return t.op(opPut, key, v, 0)
	}
	return t.op(opUpdate, key, v, expect)
}

// DeleteOp is [Table.Delete] as part of [Store.Atomic].
func (t *Table[T]) DeleteOp(key string, expect uint64) Op { return t.op(opDelete, key, nil, expect) }

func (t *Table[T]) op(kind opKind, key string, v *T, expect uint64) Op {
	op := Op{kind: kind, table: t.prefix, key: key, expect: expect, vital: t.vital, err: t.err}
	op.revision = func() uint64 {
		_, revision, _ := t.Get(key)
		return revision
	}
	if op.err == nil {
		op.subject, op.err = t.store.subject(t.prefix, key)
	}
	if op.err == nil && kind != opDelete {
		op.data, op.err = encodeRecord(v)
		op.owner = ownerOf(v)
	}
	return op
}

// Essential has the table take new keys even when the store is full, see [Options.Full]:
// for tables that protect, and for those that count. It returns the table.
func (t *Table[T]) Essential() *Table[T] {
	t.vital = true
	return t
}

func (t *Table[T]) name() string { return t.prefix }

func (t *Table[T]) unchanged(since uint64) int {
	n := 0
	for _, e := range t.entries.Range {
		if e.(*entry[T]).revision <= since {
			n++
		}
	}
	return n
}

func (t *Table[T]) put(key string, revision uint64, data []byte, round uint32, fresh bool) error {
	var old *T
	if e, ok := t.entries.Load(key); ok {
		before := e.(*entry[T])
		if before.revision == revision && !fresh {
			before.round = round
			return nil
		}
		old = before.value
	}
	value, err := decodeRecord[T](data)
	if err != nil {
		return err
	}
	t.entries.Store(key, &entry[T]{value: value, revision: revision, round: round})
	if old == nil {
		t.count.Add(1)
	}
	t.changed(key, old, value)
	return nil
}

func (t *Table[T]) remove(key string) {
	if e, ok := t.entries.LoadAndDelete(key); ok {
		t.count.Add(-1)
		t.changed(key, e.(*entry[T]).value, nil)
	}
}

func (t *Table[T]) sweep(round uint32) {
	t.entries.Range(func(key, e any) bool {
		if e.(*entry[T]).round != round {
			t.remove(key.(string))
		}
		return true
	})
}

func (t *Table[T]) changed(key string, old, new *T) {
	t.store.count(ownerOf(old), ownerOf(new))
	for _, f := range t.onChange {
		f(key, old, new)
	}
}
