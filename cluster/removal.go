package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Removal is the decision that a bridge has ended for good. Its record stays with it,
// so that no bridge takes the id again.
type Removal struct {
	By string `json:"by"` // who decided
	At int64  `json:"at"` // Unix milliseconds
}

// A Removed is the error of a bridge that starts with the id of a removed one.
type Removed struct {
	ID string
	Removal
}

func (r *Removed) Error() string {
	return fmt.Sprintf("bridge %q was removed from the cluster at %s by %s, and its id is used no more: start this one with an id that is new and an empty data folder",
		r.ID, time.UnixMilli(r.At).UTC().Format(time.RFC3339), r.By)
}

// Unwrap is the error as callers see it.
func (r *Removed) Unwrap() error { return protocol.Errorf(protocol.InvalidState, "%s", r.Error()) }

// Known reports whether the cluster has a record of a bridge, living or not, and whether
// it was removed. Records of ended bridges that keep no copy of the state are forgotten
// after an hour.
func (m *Membership) Known(ctx context.Context, id string) (known, removed bool, err error) {
	if id == secretsID {
		return false, false, nil
	}
	record, _, err := m.read(ctx, id)
	return record != nil, record != nil && record.Removed != nil, err
}

// Remove records that a bridge has ended for good, so that its id is used no more. A
// living one fails with 3006; one that is not known is removed too.
func (m *Membership) Remove(ctx context.Context, id, by string) error {
	if id == secretsID {
		return protocol.Errorf(protocol.NotFound, "no bridge has the id %q", id)
	}
	for {
		record, revision, err := m.read(ctx, id)
		if err != nil {
			return err
		}
		if record == nil {
			record = &Record{Member: Member{Node: Node{ID: id}, State: Dead}}
		}
		switch {
		case record.Removed != nil:
			return nil
		case !record.ended():
			return protocol.Errorf(protocol.InvalidState, "bridge %q lives", id).With("bridge_id", id)
		}
		record.Removed = &Removal{By: by, At: time.Now().UnixMilli()}
		data, err := ending(record, record.State, record.By)
		if err != nil {
			return err
		}
		if _, err = m.stream.Write(ctx, id, data, revision, 0); !errors.Is(err, ErrTaken) {
			return err
		}
	}
}

// read returns the record of a node from the leader of the stream, nil for none.
func (m *Membership) read(ctx context.Context, id string) (*Record, uint64, error) {
	data, revision, err := m.stream.Read(ctx, id)
	if err != nil || revision == 0 {
		return nil, 0, err
	}
	e, err := decodeEntry(id, revision, data)
	return &e.record, revision, err
}

// removed is the error of this node if a bridge with its id was removed. The caller
// holds mu.
func (m *Membership) removed() error {
	if before := m.machine.peers[m.o.ID]; before != nil && before.record.Removed != nil {
		return &Removed{m.o.ID, *before.record.Removed}
	}
	return nil
}

// Vacated is the address in cluster.join of a removed bridge whose place no other one
// has taken, "" for none.
func (m *Membership) Vacated(id string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.machine.peers[id]; p != nil && slices.Contains(m.vacated(), p.record.Keeps) {
		return p.record.Keeps
	}
	return ""
}

// taken are the addresses in cluster.join of this bridge and of those that have not
// ended. The caller holds mu.
func (m *Membership) taken() []string {
	addresses := []string{m.mine.Keeps}
	for _, p := range m.machine.peers {
		if !p.record.ended() {
			addresses = append(addresses, p.record.Keeps)
		}
	}
	return addresses
}

// vacated are the addresses in cluster.join of removed bridges whose place no other one
// has taken. The caller holds mu.
func (m *Membership) vacated() (addresses []string) {
	taken := m.taken()
	for _, p := range m.machine.peers {
		if address := p.record.Keeps; p.record.Removed != nil && address != "" && !slices.Contains(taken, address) {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// replaces reports whether two lists of cluster.join differ only because one of them has
// other bridges in the place of removed ones.
func replaces(one, other string, vacated []string) bool {
	a, b := strings.Split(one, ","), strings.Split(other, ",")
	if len(a) != len(b) {
		return false
	}
	stays := func(list []string) []string {
		return slices.DeleteFunc(list, func(address string) bool { return slices.Contains(vacated, address) })
	}
	a, b = stays(a), stays(b)
	if len(a) > len(b) {
		a, b = b, a
	}
	return !slices.ContainsFunc(a, func(address string) bool { return !slices.Contains(b, address) })
}
