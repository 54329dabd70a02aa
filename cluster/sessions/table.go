package sessions

import (
	"fmt"

	"github.com/minio/highwayhash"

	"github.com/aibridge/aibridge/broker"
)

// A Node is one process of a bridge, from its start to its end.
type Node struct {
	ID    string
	Epoch uint64
}

func (n Node) String() string { return fmt.Sprintf("%s/%d", n.ID, n.Epoch) }

// A Key stands for a client id of a space: their hash under a secret that all bridges
// share. Collisions do not occur in practice.
type Key [16]byte

// A Secret is the key under which bridges hash client ids.
type Secret [32]byte

// Key is the key of a session.
func (s *Secret) Key(id broker.SessionID) Key {
	var buffer [256]byte
	text := append(append(append(buffer[:0], id.Space...), 0), id.Client...) // NUL is in neither
	return highwayhash.Sum128(text, s[:])
}

// An Owner is the owner of a session. The zero value is no owner.
type Owner struct {
	Bridge string
	// Epoch counts the owners that the session has had. A copy of it in the journal
	// of the bridge counts if it is of this one.
	Epoch uint32
}

// An owned is an [Owner] in the table.
type owned struct {
	bridge uint32 // of Table.bridges, counted from 1
	epoch  uint32
}

// A bridge is the state of a bridge in the log.
type bridge struct {
	id    string
	epoch uint64 // of the process that began last
}

// A Table has the owners of the kept sessions. It is the result of the records of the
// log, in order, and the same on every bridge that has read the log up to the same
// position. A session takes some 40 bytes.
type Table struct {
	owners  map[Key]owned
	bridges []bridge
	index   map[string]uint32
}

// NewTable returns a table without entries.
func NewTable() *Table {
	return &Table{owners: make(map[Key]owned), index: make(map[string]uint32)}
}

// Owner is the owner of a session.
func (t *Table) Owner(k Key) Owner {
	o, ok := t.owners[k]
	if !ok {
		return Owner{}
	}
	return Owner{t.bridges[o.bridge-1].id, o.epoch}
}

// Process returns the process of a bridge that began last. Records of its other
// processes have no effect.
func (t *Table) Process(id string) Node {
	i, ok := t.index[id]
	if !ok {
		return Node{}
	}
	return Node{id, t.bridges[i-1].epoch}
}

// Len is the number of sessions that are owned.
func (t *Table) Len() int { return len(t.owners) }

// Of yields the sessions that a bridge owns, with the epochs of its ownership.
func (t *Table) Of(id string, yield func(k Key, epoch uint32) bool) {
	at := t.index[id]
	for k, o := range t.owners {
		if o.bridge == at && !yield(k, o.epoch) {
			return
		}
	}
}

func (t *Table) bridge(id string) uint32 {
	if i, ok := t.index[id]; ok {
		return i
	}
	t.bridges = append(t.bridges, bridge{id: id})
	t.index[id] = uint32(len(t.bridges))
	return t.index[id]
}

// A Record is a change of the table. It counts, or it does not.
type Record struct {
	Kind RecordKind
	Key  Key    // of claim and release
	From Owner  // of claim and release: the owner that the session must have
	To   uint32 // of claim: the epoch of the writer's ownership, above the one before
	// Giver is, in a claim of a session of another bridge, the process that gave it.
	// Once a later process has begun, which has loaded the session, the claim has no
	// effect: the given session may be out of date.
	Giver uint64
}

// RecordKind is the kind of change of a record.
type RecordKind byte

// The kinds of records.
const (
	// Begin marks a process that is about to load its bridge's journal. Later records
	// of earlier processes of the bridge have no effect.
	Begin RecordKind = iota + 1
	// Claim makes the writer the owner.
	Claim
	// Release ends the ownership of a session that is not kept any more.
	Release
)

// An Entry is records of one process that are in the log together.
type Entry struct {
	Writer  Node
	Tag     uint64 // distinguishes the entries of one writer
	Records []Record
}

// A Change is a session that has another owner.
type Change struct {
	Key         Key
	Before, Now Owner
}

// Apply applies an entry of the log. It reports which of the records took effect, and
// returns the changes.
func (t *Table) Apply(e *Entry) (counted []bool, changes []Change) {
	counted = make([]bool, len(e.Records))
	for i := range e.Records {
		var change Change
		change, counted[i] = t.apply(e.Writer, &e.Records[i])
		if counted[i] && change != (Change{}) {
			changes = append(changes, change)
		}
	}
	return counted, changes
}

func (t *Table) apply(by Node, r *Record) (c Change, counted bool) {
	self := t.bridge(by.ID)
	if r.Kind == Begin {
		b := &t.bridges[self-1]
		if by.Epoch <= b.epoch {
			return c, false
		}
		b.epoch = by.Epoch
		return c, true
	}
	c = Change{Key: r.Key, Before: t.Owner(r.Key)}
	if c.Before != r.From || t.bridges[self-1].epoch != by.Epoch {
		return Change{}, false
	}
	if r.Kind == Release {
		if r.From == (Owner{}) {
			return Change{}, false
		}
		delete(t.owners, r.Key)
		return c, true
	}
	if r.To <= r.From.Epoch || r.From.Bridge != "" && r.From.Bridge != by.ID && t.Process(r.From.Bridge).Epoch != r.Giver {
		return Change{}, false
	}
	o := owned{self, r.To}
	t.owners[r.Key] = o
	c.Now = Owner{by.ID, o.epoch}
	return c, true
}
