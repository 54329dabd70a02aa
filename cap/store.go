package cap

import (
	"github.com/aibridge/aibridge/protocol"
)

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

// maxRemovals is the number of removals that fit into one atomic change.
const maxRemovals = 1000

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
