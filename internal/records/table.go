// Package records is the vocabulary of durable records: tables that keep them,
// and the one way to change a record that others may change meanwhile. The
// package internal/store has the tables on NATS JetStream, recordstest those
// of tests.
package records

import (
	"context"
	"iter"
)

// A Table keeps records of one kind durably, by key. A *T that went into a table or
// came out of it is shared by all users of the table and must never be changed. A
// write returns when it is durable and every read sees it.
//
// All methods may be called by many goroutines at the same time.
type Table[T any] interface {
	// Get returns the record at key and its revision. It reads memory only.
	Get(key string) (value *T, revision uint64, ok bool)
	// All yields every record, in no order. Changes made meanwhile may be seen
	// or not.
	All() iter.Seq2[string, *T]
	// Len is the number of records.
	Len() int
	// Create stores a record at a key that holds nothing; 3002 if it holds
	// something.
	Create(ctx context.Context, key string, v *T) (revision uint64, err error)
	// Put stores a record, in place of any other at the key.
	Put(ctx context.Context, key string, v *T) (revision uint64, err error)
	// Update stores a record at a key that holds the revision expect; 3003 if it
	// holds another, or nothing.
	Update(ctx context.Context, key string, v *T, expect uint64) (revision uint64, err error)
	// Delete removes a record; 3001 if the key holds nothing, 3003 if expect is
	// not zero and not the revision it holds.
	Delete(ctx context.Context, key string, expect uint64) error
	// OnChange has fn called after every change, in the order of the changes and
	// before the change is acknowledged: old is nil for a new key, new for a
	// removed one. fn is called for existing records first. fn must not block and
	// must not write to a table.
	OnChange(fn func(key string, old, new *T))
}

// A Versioned record knows the version of the schema that it needs. A bridge that
// knows only lower ones refuses the record, and the state that it is part of,
// instead of losing the unknown fields. Records of other types have 1.
type Versioned interface {
	Schema() int
}
