package cap

import (
	"context"
	"iter"

	"github.com/aibridge/aibridge/protocol"
)

// A Table keeps records of one kind durably. Values are immutable once
// stored. Writes return when they are durable and every read sees them.
type Table[T any] interface {
	// Get looks a record up. It does not block.
	Get(key string) (value *T, revision uint64, ok bool)
	// All yields every record, in no particular order.
	All() iter.Seq2[string, *T]
	// Create adds a record, 3002 if the key is there.
	Create(ctx context.Context, key string, v *T) (revision uint64, err error)
	// Put stores a record, whatever was there.
	Put(ctx context.Context, key string, v *T) (revision uint64, err error)
	// Update replaces the record with the expected revision, 3003 if it has
	// another.
	Update(ctx context.Context, key string, v *T, expect uint64) (revision uint64, err error)
	// OnChange calls fn for every change, in order, after reads see it; old
	// is nil for what is new and new is nil for what is gone. It is called
	// for everything there is while the table is loaded.
	OnChange(fn func(key string, old, new *T))
}

// A Kind is one of the tables of a [Service].
type Kind uint8

// The tables.
const (
	Caps Kind = iota
	Groups
	Data
)

// A Removal names a record to remove, if it still has the revision.
type Removal struct {
	Kind     Kind
	Key      string
	Revision uint64
}

// maxRemovals is how many removals fit into one atomic change.
const maxRemovals = 1000

// A Message is what the bridge publishes about Caps, with QoS 1.
type Message struct {
	Topic   string
	Payload []byte // JSON; nothing removes what is retained
	Retain  bool
}

// The keys of the tables: ids have no slash.

func capKey(space protocol.SpaceID, id protocol.CapID) string {
	return string(space) + "/" + string(id)
}

func groupKey(space protocol.SpaceID, id protocol.CapID, group protocol.GroupID) string {
	return capKey(space, id) + "/" + string(group)
}

func dataKey(space protocol.SpaceID, id protocol.CapID, group protocol.GroupID, key protocol.DataKey) string {
	return groupKey(space, id, group) + "/" + string(key)
}

// maxAttempts bounds how often a change is tried again when somebody else
// changed the same record meanwhile.
const maxAttempts = 16
