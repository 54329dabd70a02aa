package cluster

import (
	"context"
	"errors"
	"time"
)

// A Stream keeps the records of the nodes, one by the id of each, in one order
// for all. Package store has it on JetStream.
type Stream interface {
	// Write stores a record if the one before has the revision after, 0 for
	// none, and returns its revision. It fails with [ErrTaken] if it has not,
	// and otherwise may have stored it. A life bounds how long the record stays,
	// 0 for ever.
	Write(ctx context.Context, id string, record []byte, after uint64, life time.Duration) (revision uint64, err error)
	// Prove stores something that is no record, and returns its revision.
	Prove(ctx context.Context, instance string) (revision uint64, err error)
	// Read asks whoever leads the stream for a record; revision 0 says that
	// there is none.
	Read(ctx context.Context, id string) (record []byte, revision uint64, err error)
	// Follow calls each for everything that is stored, in its order, with "" as
	// id for what is no record; then current; then each for whatever is stored
	// from now on. It returns why it cannot go on.
	Follow(ctx context.Context, current func(), each func(id string, revision uint64, record []byte)) error
	// Connected reports whether a server of NATS can be reached.
	Connected() bool
}

// ErrTaken says that a record is not at the revision that it was to be at.
var ErrTaken = errors.New("cluster: the record was changed by others")
