package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/llm/run/pack"
	"github.com/aibridge/aibridge/protocol"
)

// A PackageRecord is the description of a package for lists, without its files.
type PackageRecord struct {
	Space       protocol.SpaceID `json:"space_id"`
	Name        string           `json:"name"`
	Version     string           `json:"version"`
	SHA256      string           `json:"sha256"`
	Bytes       int              `json:"bytes"`
	Description string           `json:"description,omitempty"`
	Author      string           `json:"author,omitempty"`
	Workflows   []PackagedFlow   `json:"workflows"`
	Agents      []PackagedAgent  `json:"agents"`
	Warnings    []string         `json:"warnings,omitempty"`
	By          string           `json:"imported_by"`
	At          time.Time        `json:"imported_at"`
}

// KeptFor is the party whose quota of records the package counts against: its space.
func (r *PackageRecord) KeptFor() protocol.Party { return protocol.Party{Space: r.Space} }

// A PackagedFlow is a workflow of a package.
type PackagedFlow struct {
	ID          string `json:"workflow_id" doc:"id, or the path of its workflow.md"`
	Name        string `json:"name,omitempty" doc:"name for people"`
	Description string `json:"description,omitempty" doc:"purpose"`
	Steps       int    `json:"steps" doc:"nodes of its graph"`
}

// A PackagedAgent is an agent of a package.
type PackagedAgent struct {
	ID    string `json:"agent_id" doc:"id"`
	Name  string `json:"name" doc:"name for people"`
	Title string `json:"title" doc:"kind"`
	Icon  string `json:"icon,omitempty" doc:"a sign for it"`
}

// recordOf returns the record of a package.
func recordOf(p *pack.Package) *PackageRecord {
	r := &PackageRecord{
		Name: p.Manifest.Name, Version: p.Manifest.Version, SHA256: hex.EncodeToString(p.SHA256[:]),
		Description: p.Manifest.Description, Author: p.Manifest.Author, Warnings: p.Warnings,
		Workflows: []PackagedFlow{}, Agents: []PackagedAgent{},
	}
	for _, w := range p.Workflows {
		r.Workflows = append(r.Workflows, PackagedFlow{ID: w.ID, Name: w.DisplayName, Description: w.Description, Steps: len(w.Graph.Nodes)})
	}
	for i := range p.Agents {
		a := &p.Agents[i]
		r.Agents = append(r.Agents, PackagedAgent{ID: a.ID, Name: a.Metadata.Name, Title: a.Metadata.Title, Icon: a.Metadata.Icon})
	}
	return r
}

// A library stores the zips of packages by their SHA-256, and keeps the recently used
// ones in memory.
type library struct {
	dir    string
	blobs  Blobs // store of the zips for all bridges of a cluster, nil for the folder alone
	limits pack.Limits

	mu     sync.Mutex
	loaded map[string]*volume
	order  []string        // of loaded, the latest last
	shared map[string]bool // known to be among the blobs
}

// isShared reports whether a package is known to be among the blobs.
func (l *library) isShared(sum string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shared[sum]
}

func (l *library) share(sum string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shared == nil {
		l.shared = make(map[string]bool)
	}
	l.shared[sum] = true
}

// A volume is a loaded package with its files as a mount.
type volume struct {
	*pack.Package
	files mount.FS
}

// maxLoaded is the greatest number of packages in memory, beside those of running
// engines.
const maxLoaded = 16

func (l *library) path(sum string) string { return filepath.Join(l.dir, sum+".zip") }

// add stores a package with its zip. It is durable when add returns.
func (l *library) add(ctx context.Context, p *pack.Package, zip []byte) error {
	sum := hex.EncodeToString(p.SHA256[:])
	if l.blobs != nil {
		if err := l.blobs.Put(ctx, packageBlobs+sum, zip); err != nil {
			return err
		}
	}
	if err := l.shelve(sum, zip); err != nil {
		return err
	}
	l.keep(sum, p)
	return nil
}

// shelve writes a zip to the folder.
func (l *library) shelve(sum string, zip []byte) error {
	if _, err := os.Stat(l.path(sum)); err == nil {
		return nil
	}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	part, err := os.CreateTemp(l.dir, "*.part")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name())
	_, err = part.Write(zip)
	if err = errors.Join(err, part.Sync(), part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), l.path(sum))
}

// load returns a stored package.
func (l *library) load(ctx context.Context, sum string) (*volume, error) {
	l.mu.Lock()
	v := l.loaded[sum]
	l.mu.Unlock()
	if v != nil {
		return v, nil
	}
	zip, err := os.ReadFile(l.path(sum))
	if err == nil && l.blobs != nil && sha(zip) != sum { // a damaged copy of a blob
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		zip, err = l.fetch(ctx, sum)
	}
	if err != nil {
		return nil, err
	}
	p, err := pack.Read(zip, l.limits)
	if err != nil {
		return nil, err
	}
	if hex.EncodeToString(p.SHA256[:]) != sum {
		return nil, protocol.Errorf(protocol.InvalidState, "the package was damaged on disk; import it again").With("sha256", sum)
	}
	return l.keep(sum, p), nil
}

// fetch gets a zip from the blobs, and writes it to the folder.
func (l *library) fetch(ctx context.Context, sum string) ([]byte, error) {
	gone := protocol.Errorf(protocol.NotFound, "the package is not there any more; import it again").With("sha256", sum)
	if l.blobs == nil {
		return nil, gone
	}
	zip, err := l.blobs.Get(ctx, packageBlobs+sum)
	if protocol.CodeOf(err) == protocol.FileNotFound {
		return nil, gone
	}
	if err != nil {
		return nil, err
	}
	_ = os.Remove(l.path(sum)) // the file is damaged
	return zip, l.shelve(sum, zip)
}

func sha(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// before lists the packages whose zips were written before a time.
func (l *library) before(at time.Time) (sums []string, err error) {
	entries, err := os.ReadDir(l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		sum, zip := strings.CutSuffix(e.Name(), ".zip")
		if !zip {
			continue
		}
		if info, err := e.Info(); err == nil && info.ModTime().Before(at) {
			sums = append(sums, sum)
		}
	}
	return sums, err
}

// remove removes a package. Running engines keep it.
func (l *library) remove(sum string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.loaded, sum)
	l.order = slices.DeleteFunc(l.order, func(other string) bool { return other == sum })
	err := os.Remove(l.path(sum))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// prune removes replaced packages, unless a run refers to them.
func (s *Service) prune(sums []string) {
	if len(sums) == 0 {
		return
	}
	s.refer.Lock()
	defer s.refer.Unlock()
	needed := s.referredTo()
	for _, sum := range sums {
		if needed[sum] {
			continue
		}
		if err := s.library.remove(sum); err != nil {
			s.opts.Log.Warn("the zip of a package cannot be removed", "sha256", sum, "error", err)
		}
	}
}

// referredTo returns the packages with a record and those of runs. Reserved runs come
// first, since they are stored before they are released.
func (s *Service) referredTo() map[string]bool {
	needed := make(map[string]bool)
	s.mu.Lock()
	reserved := slices.Collect(maps.Values(s.live))
	s.mu.Unlock()
	for _, l := range reserved {
		needed[l.now().Package] = true
	}
	for _, r := range s.opts.Runs.All() {
		needed[r.Package] = true
	}
	for _, r := range s.opts.Packages.All() {
		needed[r.SHA256] = true
	}
	return needed
}

// keep adds a package to those in memory, and returns the one that is kept there.
func (l *library) keep(sum string, p *pack.Package) *volume {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other := l.loaded[sum]; other != nil {
		return other
	}
	v := &volume{p, mount.Memory(p.Files())}
	l.loaded[sum] = v
	l.order = append(l.order, sum)
	if len(l.order) > maxLoaded {
		delete(l.loaded, l.order[0])
		l.order = l.order[1:]
	}
	return v
}
