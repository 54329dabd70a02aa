package audit

import "context"

// A Log keeps groups of entries, in the order they were appended. One process
// appends to it at a time.
type Log interface {
	// Append returns when the group is durable. After an error the same
	// group may be appended again, and is then not there twice.
	Append(ctx context.Context, group []byte) error
	// Bounds says what is there.
	Bounds(ctx context.Context) (Bounds, error)
	// Get returns the group at a position, or nil if there is none.
	Get(ctx context.Context, position uint64) ([]byte, error)
	// Read calls f for every group, the oldest first. The group is valid
	// until f returns.
	Read(ctx context.Context, f func(position uint64, group []byte) error) error
	// Trim forgets the groups before a position.
	Trim(ctx context.Context, before uint64) error
}

// Bounds say what a [Log] holds: groups at positions from First to Last, none
// if Last < First.
type Bounds struct {
	First, Last uint64
	Bytes       uint64
}
