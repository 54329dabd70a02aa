package cluster

import (
	"context"
	"errors"
	"time"
)

// A Stream keeps the records of the nodes, one by the id of each, in one order
// for all. Package store has it on JetStream.
type Stream interface {
	// Write stores a record if the present one has the revision after, 0 for none, and
	// returns the new revision. It fails with [ErrTaken] if it has another one; after
	// any other error the record may have been stored. life is the lifetime of the
	// record, 0 for no limit.
	Write(ctx context.Context, id string, record []byte, after uint64, life time.Duration) (revision uint64, err error)
	// Prove stores an entry that is no record, and returns its revision.
	Prove(ctx context.Context, instance string) (revision uint64, err error)
	// Read returns a record from the leader of the stream; revision 0 means that there
	// is none.
	Read(ctx context.Context, id string) (record []byte, revision uint64, err error)
	// Follow calls each for every stored entry, in order, with "" as id for one that is
	// no record; then current; then each for every entry stored from then on. It
	// returns the error that ended it.
	Follow(ctx context.Context, current func(), each func(id string, revision uint64, record []byte)) error
	// Connected reports whether a server of NATS can be reached.
	Connected() bool
}

// ErrTaken reports that the present revision of a record is not the expected one.
var ErrTaken = errors.New("cluster: the record was changed by others")
