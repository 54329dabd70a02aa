// Package masterkey keeps a key file of bridges that share a state, such as
// seal.key, in versions, so that the file is replaced while all of them run. Each
// bridge has one version in its file. The registry has each version sealed under
// its neighbours, so that a bridge that was away finds the newest from the one it
// has.
package masterkey

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/keyfile"
)

// PepperFile is the file whose secret all bridges share as well. Opening a
// neighbouring version takes both secrets.
const PepperFile = "pepper"

// Size is the size of each version, in bytes.
const Size = 32

// Settle is the time after the beginning of a version in which something may still
// be sealed with an older one: no bridge waits longer for a write of its own.
const Settle = time.Minute

// ErrOther says that the needed version cannot be reached from the file of this
// bridge.
var ErrOther = errors.New("the key file is not the one that was sealed with, nor does anything lead from it to that")

// A Version is a version of a key file at rest, by file and number. The first has no
// record. Next and Back are removed once the version before is retired.
type Version struct {
	ID      string    `json:"id"` // identifies the key, see [keyfile.Fingerprint]
	Created time.Time `json:"created"`
	Active  time.Time `json:"active,omitzero"`  // new values are sealed with it from then on
	Before  string    `json:"before,omitempty"` // id of the version before; "" if that was lost
	Next    []byte    `json:"next,omitempty"`   // the key, sealed with the version before and the pepper
	Back    []byte    `json:"back,omitempty"`   // the version before, sealed with the key
	Retired time.Time `json:"retired,omitzero"` // the version before is of no use from then on
}

// A Holder is the version in the data folder of a bridge, by file and bridge.
type Holder struct {
	ID string    `json:"id"` // of the version
	At time.Time `json:"at"` // since then
}

// Options say which file it is. All but Now, Write and Log are needed.
type Options struct {
	Dir    string // the data folder
	Name   string // of the file
	Bridge string // id of this one, "" if it shares its state with none

	Versions records.Table[Version] // of all files
	Holders  records.Table[Holder]

	Now   func() time.Time
	Write func(path string, data []byte) error // of a file, as a whole
	Log   *slog.Logger
}

// A File is a key file and its versions. It is safe for use by several goroutines.
type File struct {
	o    Options
	path string

	mu    sync.Mutex
	held  string            // id of the key in the file, "" without a file
	known map[string][]byte // the versions that can be reached from it, by id
}

// Open reads the file, which need not be there. The tables need not be loaded yet.
func Open(o Options) (*File, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Write == nil {
		o.Write = keyfile.Write
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f := &File{o: o, path: filepath.Join(o.Dir, o.Name), known: make(map[string][]byte)}
	key, err := os.ReadFile(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case err != nil:
		return nil, err
	case len(key) != Size:
		return nil, fmt.Errorf("%s has %d bytes instead of %d", o.Name, len(key), Size)
	}
	f.held = f.learn(key)
	return f, nil
}

// Name is the name of the file.
func (f *File) Name() string { return f.o.Name }

// learn adds a key to those that are known.
func (f *File) learn(key []byte) (id string) {
	id = keyfile.Fingerprint(f.o.Name, key)
	f.known[id] = key
	return id
}

// There reports whether the bridge has the file.
func (f *File) There() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held != ""
}

// Make makes the file with a new key, which nothing leads to: where versions are
// known, it is the newest, and active. The versions come first: after a crash in
// between the file is missing still, and made again.
func (f *File) Make(ctx context.Context) error {
	key := make([]byte, Size)
	_, _ = rand.Read(key) // never fails
	if all := f.chain(); len(all) > 0 {
		now := f.o.Now().UTC()
		anew := &Version{ID: keyfile.Fingerprint(f.o.Name, key), Created: now, Active: now}
		if _, err := f.o.Versions.Create(ctx, f.key(all[0].number+1), anew); err != nil {
			return err
		}
	}
	return f.put(key)
}

// put replaces the file.
func (f *File) put(key []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.o.Write(f.path, key); err != nil {
		return err
	}
	f.held = f.learn(key)
	return nil
}

// Active is the version that seals new values. It is that of the file as long as there
// are no others, and [ErrOther] if it cannot be reached from that.
func (f *File) Active() (id string, key []byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id = f.active(f.reach()); id == "" || f.known[id] == nil {
		return id, nil, ErrOther
	}
	return id, f.known[id], nil
}

// Key is a version by its id, nil if it cannot be reached.
func (f *File) Key(id string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reach()
	return f.known[id]
}

// Keys are all versions that can be reached.
func (f *File) Keys() (all [][]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reach()
	for _, key := range f.known {
		all = append(all, key)
	}
	return all
}

// Rotated reports whether there was ever another version than the first.
func (f *File) Rotated() bool { return len(f.chain()) > 0 }

// Begun reports whether the bridge has made the active version without those before
// it, which are lost.
func (f *File) Begun() bool {
	all := f.chain()
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(all) > 0 && all[0].record.Before == "" && all[0].record.ID == f.held
}

// First is the id of the first version, which has no record, "" if it was lost or is
// not there yet.
func (f *File) First() string {
	if all := f.chain(); len(all) > 0 {
		return all[len(all)-1].record.Before
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held
}

// Accepted are the ids of the versions that lead to the active one or are to be it,
// the newest first: a bridge that has one of them in its file can join.
func (f *File) Accepted() (ids []string) {
	all := f.chain()
	for _, v := range all {
		ids = append(ids, v.record.ID)
		if !v.record.Retired.IsZero() || v.record.Before == "" {
			return ids
		}
	}
	if len(all) > 0 {
		return append(ids, all[len(all)-1].record.Before)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held != "" {
		ids = append(ids, f.held)
	}
	return ids
}

// Adopt puts the active version into the file, on the disk, and then notes that this
// bridge has it.
func (f *File) Adopt(ctx context.Context) error {
	id, key, err := f.Active()
	if err != nil {
		return err
	}
	f.mu.Lock()
	held := f.held
	f.mu.Unlock()
	if held != id {
		if err := f.put(key); err != nil {
			return fmt.Errorf("write version %s of %s: %w", f.number(id), f.o.Name, err)
		}
		f.o.Log.Info("a key file has its next version", "file", f.o.Name, "version", f.number(id))
	}
	if f.o.Bridge == "" {
		return nil
	}
	_, _, err = records.Change(ctx, f.o.Holders, f.holder(f.o.Bridge), func(old *Holder, _ uint64) (*Holder, error) {
		if old != nil && old.ID == id {
			return old, nil
		}
		return &Holder{ID: id, At: f.o.Now().UTC()}, nil
	})
	return err
}

func (f *File) key(number int) string       { return f.o.Name + "/" + strconv.Itoa(number) }
func (f *File) holder(bridge string) string { return f.o.Name + "/" + bridge }

// number is the number of a version by its id, for people.
func (f *File) number(id string) string {
	for _, v := range f.Versions() {
		if v.ID == id {
			return v.Number()
		}
	}
	return "1"
}

// other is the error for a version that this bridge cannot reach.
func (f *File) other(version string) error {
	return protocol.Wrap(protocol.InvalidState, ErrOther, fmt.Sprintf("version %s of %s cannot be reached from the one in the data folder of this bridge", version, f.o.Name))
}
