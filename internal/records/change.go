package records

import (
	"context"

	"github.com/aibridge/aibridge/protocol"
)

// Attempts bounds how often a change is tried again when others change the same
// record meanwhile.
const Attempts = 32

// Change replaces the record at key by the result of edit, and returns the record
// that is there then with its revision.
//
// edit gets the present record and its revision, nil and 0 if there is none. It
// returns the new record, or nil for none; Change writes nothing if that is the
// [Same] as before. An error of edit ends the change. edit is called again when
// another writer changed the record meanwhile, and must not keep anything from a
// call before.
//
// The error is that of edit or of the table: 3003 after [Attempts] lost races.
func Change[T any](ctx context.Context, t Table[T], key string, edit func(old *T, revision uint64) (*T, error)) (value *T, revision uint64, err error) {
	for range Attempts {
		old, held, ok := t.Get(key)
		if !ok {
			old, held = nil, 0
		}
		value, err = edit(old, held)
		if err != nil {
			return nil, 0, err
		}
		if Same(value, old) {
			return old, held, nil
		}
		revision, err = replace(ctx, t, key, old, value, held)
		if !Raced(err) {
			return value, revision, err
		}
	}
	return nil, 0, protocol.Errorf(protocol.RevisionConflict, "too many change the same at once; try again")
}

func replace[T any](ctx context.Context, t Table[T], key string, old, value *T, held uint64) (revision uint64, err error) {
	switch {
	case value == nil:
		return 0, t.Delete(ctx, key, held)
	case old == nil:
		return t.Create(ctx, key, value)
	}
	return t.Update(ctx, key, value, held)
}

// Raced reports whether a write failed because of another one: the record was
// changed, created or removed since it was read.
func Raced(err error) bool {
	switch protocol.CodeOf(err) {
	case protocol.RevisionConflict, protocol.AlreadyExists, protocol.NotFound:
		return true
	}
	return false
}
