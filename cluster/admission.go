package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// A Misfit is the error of a node that cannot work beside another one: that node, and
// the reason.
type Misfit struct {
	With   Node
	Reason string
}

func (m *Misfit) Error() string {
	return fmt.Sprintf("this bridge does not fit to bridge %q, which is in the cluster already: %s", m.With.ID, m.Reason)
}

// Unwrap is the error as callers see it.
func (m *Misfit) Unwrap() error { return protocol.Errorf(protocol.StoreUnavailable, "%s", m.Error()) }

// fits returns a [Misfit] if the node of r cannot work beside the node of other, which
// has joined already: the versions of the protocol, or settings that must agree,
// differ. Vacated are the addresses of removed bridges.
func (r *Record) fits(other *Record, vacated []string) error {
	if reason := r.misfit(other, vacated); reason != "" {
		return &Misfit{other.Node, reason}
	}
	return nil
}

func (r *Record) misfit(other *Record, vacated []string) string {
	if d := r.Wire - other.Wire; d < -1 || d > 1 {
		return fmt.Sprintf("it speaks version %d of the bridges' protocol (release %s) and this one version %d (release %s); versions that differ by one work together, so go by the releases in between", other.Wire, other.Version, r.Wire, r.Version)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Agree)) {
		mine := r.Agree[name]
		theirs, told := other.Agree[name]
		if told && theirs != mine && !(name == joinSetting && replaces(mine, theirs, vacated)) {
			return fmt.Sprintf("%s is %q there and %q here; it must be the same on all bridges of a cluster", name, theirs, mine)
		}
	}
	return ""
}

// strangers returns the names of the files of secrets that differ between the two
// nodes. A rotating file of a standby counts as the same: only a serving node publishes
// the fingerprints of all versions.
func (r *Record) strangers(other *Record, rotating []string) []string {
	var files []string
	for _, file := range slices.Sorted(maps.Keys(other.Keys)) {
		mine, theirs := strings.Fields(r.Keys[file]), strings.Fields(other.Keys[file])
		same := slices.ContainsFunc(mine, func(print string) bool { return slices.Contains(theirs, print) })
		starts := other.State == Standby && len(mine) > 0 && slices.Contains(rotating, file)
		if !same && !starts {
			files = append(files, file)
		}
	}
	return files
}

// fitsKeys returns a [Misfit] if the secrets of the two nodes differ. Rotating files
// have several versions, of which one in common is enough.
func (r *Record) fitsKeys(other *Record, rotating []string) error {
	files := r.strangers(other, rotating)
	if len(files) == 0 {
		return nil
	}
	// What the other has not made yet, because it has just begun, is to be copied too.
	shared := slices.Collect(maps.Keys(other.Keys))
	for _, file := range rotating {
		if !slices.Contains(shared, file) {
			shared = append(shared, file)
		}
	}
	slices.Sort(shared)
	return &Misfit{other.Node, fmt.Sprintf("%s in the data folder differ, or are not there; copy %s from that bridge, or give this cluster another root if it is not the same one",
		strings.Join(files, ", "), strings.Join(shared, ", "))}
}

// admit returns the error of this node if a bridge of its id was removed, if it cannot
// work beside a node that joined before it, or if it is alone and cannot read the stored
// state. A node that does not fit to an older one does not count: it ends itself, as when
// several with secrets of their own start together. The caller holds mu.
func (m *Membership) admit() error {
	if err := m.removed(); err != nil {
		return err
	}
	older := slices.SortedFunc(maps.Values(m.machine.peers), func(a, b *peer) int { return cmp.Compare(a.record.Joined, b.record.Joined) })
	var admitted []*Record
	for _, p := range older {
		if p.record.ended() || p.id == m.o.ID || m.machine.phase == member && p.record.Joined > m.machine.joined {
			continue
		}
		if slices.ContainsFunc(admitted, func(other *Record) bool { return m.refused(&p.record, other) != nil }) {
			continue
		}
		admitted = append(admitted, &p.record)
		if err := m.refused(&m.mine, &p.record); err != nil {
			return err
		}
		if err := m.mine.fitsKeys(&p.record, m.o.Rotating); err != nil && !m.told[p.id] {
			m.told[p.id] = true
			m.o.Log.Warn("a bridge that takes over from the other could not open what that has sealed, nor know its API keys", "why", err)
		}
	}
	if len(admitted) == 0 {
		return m.foreign()
	}
	return nil
}

// refused returns the [Misfit] of a node beside one that joined before it. Other secrets
// are one only where all work.
func (m *Membership) refused(r, other *Record) error {
	if err := r.fits(other, m.vacated()); err != nil || m.o.Working != All {
		return err
	}
	return r.fitsKeys(other, m.o.Rotating)
}
