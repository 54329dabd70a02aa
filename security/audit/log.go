package audit

import (
	"context"

	"github.com/aibridge/aibridge/internal/evidence"
)

// A Log keeps a trail in blocks, in the order they were appended.
type Log interface {
	// Bounds returns the numbers of the first and the last block.
	Bounds(ctx context.Context) (Bounds, error)
	// Get returns the block of a number, or nil if there is none.
	Get(ctx context.Context, number uint64) ([]byte, error)
	// Read calls f for every block, the oldest first. The block is valid until
	// f returns.
	Read(ctx context.Context, f func(number uint64, block []byte) error) error
	// Trim forgets blocks before a number.
	Trim(ctx context.Context, before uint64) error
}

// A RemoteLog is one that blocks are shipped to. One process appends to it at a
// time.
type RemoteLog interface {
	Log
	// Append returns when the block is durable. After an error the same block
	// may be appended again, and is then not there twice.
	Append(ctx context.Context, block []byte) error
	// Largest is the number of bytes of a block that the log takes at most. It may
	// change.
	Largest() int
}

// Bounds are the numbers of a [Log]'s blocks, from First to Last, none if Last <
// First.
type Bounds = evidence.Bounds
