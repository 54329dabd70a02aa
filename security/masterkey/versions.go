package masterkey

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// A State is the use that a version still has.
type State string

// The states of a version.
const (
	StateStaged     State = "staged"     // nothing is sealed with it until all bridges know it
	StateActive     State = "active"     // new values are sealed with it
	StateOpen       State = "open"       // values sealed with it can still be opened
	StateRetired    State = "retired"    // it is gone
	StateUnreadable State = "unreadable" // nothing leads to it from the file of this bridge
)

// A View is a version as operators see it.
type View struct {
	ID      string
	State   State
	Created time.Time // zero for the first
	Active  time.Time // zero for the first, and one that is staged
	Retired time.Time
	Bridges []string // that have it in their data folder and no later one, by id

	number int
}

// Number is the version's number, from 1.
func (v View) Number() string { return strconv.Itoa(v.number) }

// Versions lists the versions, the newest first.
func (f *File) Versions() (all []View) {
	f.mu.Lock()
	chain := f.reach()
	active := f.active(chain)
	number := 1
	for _, v := range chain {
		all = append(all, View{ID: v.record.ID, State: StateOpen, Created: v.record.Created, Active: v.record.Active, number: v.number})
		number = v.number - 1
	}
	switch {
	case len(chain) > 0:
		all = append(all, View{ID: chain[len(chain)-1].record.Before, State: StateOpen, number: number})
	case f.held != "":
		all = append(all, View{ID: f.held, State: StateOpen, number: number})
	}
	newer := true
	for i := range all {
		v := &all[i]
		if i > 0 {
			v.Retired = chain[i-1].record.Retired
		}
		newer = newer && v.ID != active
		switch {
		case !v.Retired.IsZero():
			v.State = StateRetired
		case f.known[v.ID] == nil:
			v.State = StateUnreadable
		case v.ID == active:
			v.State = StateActive
		case newer:
			v.State = StateStaged
		}
	}
	f.mu.Unlock()
	for key, h := range f.o.Holders.All() {
		bridge, mine := strings.CutPrefix(key, f.o.Name+"/")
		if i := slices.IndexFunc(all, func(v View) bool { return v.ID == h.ID }); mine && i >= 0 {
			all[i].Bridges = append(all[i].Bridges, bridge)
		}
	}
	for _, v := range all {
		slices.Sort(v.Bridges)
	}
	return all
}

// Newest is the newest version that this bridge can reach, "" for none.
func (f *File) Newest() string {
	for _, v := range f.Versions() {
		if v.State != StateUnreadable && v.State != StateRetired {
			return v.Number()
		}
	}
	return ""
}

// Stage makes a version that nothing is sealed with yet, or finds the one that a
// rotation before has left so.
func (f *File) Stage(ctx context.Context) (version string, err error) {
	all := f.Versions()
	if len(all) > 0 && all[0].State == StateStaged {
		return all[0].Number(), nil
	}
	before, key, err := f.Active()
	if err != nil || all[0].State != StateActive {
		return "", f.other(f.newestNumber())
	}
	made, err := f.newKey(before, key)
	if err != nil {
		return "", err
	}
	number := all[0].number + 1
	_, err = f.o.Versions.Create(ctx, f.key(number), made)
	if protocol.CodeOf(err) == protocol.AlreadyExists { // another bridge was quicker
		err = nil
	}
	return strconv.Itoa(number), err
}

// newestNumber is the number of the newest version, reached or not.
func (f *File) newestNumber() string {
	if all := f.Versions(); len(all) > 0 {
		return all[0].Number()
	}
	return "1"
}

// Activate has new values be sealed with a staged version.
func (f *File) Activate(ctx context.Context, version string) error {
	_, _, err := records.Change(ctx, f.o.Versions, f.o.Name+"/"+version, func(r *Version, _ uint64) (*Version, error) {
		switch {
		case r == nil:
			return nil, f.none(version)
		case !r.Active.IsZero():
			return r, nil
		case f.Key(r.ID) == nil:
			return nil, f.other(version)
		}
		active := *r
		active.Active = f.o.Now().UTC()
		return &active, nil
	})
	return err
}

func (f *File) none(version string) error {
	return protocol.Errorf(protocol.NotFound, "there is no version %q of %s", version, f.o.Name).With("version", version)
}

// Retire removes a version, and forgets bridges that are gone for good. The caller
// has seen to it that nothing is sealed with it, and that no bridge has no later one.
func (f *File) Retire(ctx context.Context, version string, gone []string) error {
	all := f.Versions()
	at := slices.IndexFunc(all, func(v View) bool { return v.Number() == version })
	active := slices.IndexFunc(all, func(v View) bool { return v.State == StateActive })
	switch {
	case at < 0:
		return f.none(version)
	case all[at].State == StateRetired:
		return nil
	case active < 0:
		return f.other(f.newestNumber())
	case at == active:
		return protocol.Errorf(protocol.InvalidState, "version %s of %s is the one that is sealed with; rotate it first", version, f.o.Name)
	case at < active:
		return protocol.Errorf(protocol.InvalidState, "version %s of %s is staged; secret.rotate goes on with it", version, f.o.Name)
	case at+1 < len(all) && all[at+1].State != StateRetired:
		return protocol.Errorf(protocol.InvalidState, "version %s of %s leads to version %s; retire it first", all[at+1].Number(), f.o.Name, version)
	}
	if left := all[active].Active.Add(Settle).Sub(f.o.Now()); left > 0 {
		return protocol.Errorf(protocol.InvalidState, "version %s of %s has been active for less than %v, and other bridges may be about to seal with an older one", all[active].Number(), f.o.Name, Settle).
			With("retry_after_ms", left.Milliseconds())
	}
	for _, bridge := range gone {
		if err := f.o.Holders.Delete(ctx, f.holder(bridge), 0); err != nil && protocol.CodeOf(err) != protocol.NotFound {
			return err
		}
	}
	return f.cut(ctx, all[at-1])
}

// cut removes the ways between a version and the one before it.
func (f *File) cut(ctx context.Context, next View) error {
	_, _, err := records.Change(ctx, f.o.Versions, f.o.Name+"/"+next.Number(), func(r *Version, _ uint64) (*Version, error) {
		if r == nil {
			return nil, f.none(next.Number())
		}
		cut := *r
		cut.Next, cut.Back, cut.Retired = nil, nil, f.o.Now().UTC()
		return &cut, nil
	})
	if err != nil {
		return fmt.Errorf("retire the version before %s: %w", next.Number(), err)
	}
	return nil
}
