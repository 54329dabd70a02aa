package binding

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/aibridge/aibridge/connect/device"
	"github.com/aibridge/aibridge/protocol"
)

// Options configure a [Service]. All are needed.
type Options struct {
	Path string // of a file, or of a folder with *.yaml and *.yml
	Root string // first level of the bridge's own topics
	// Fleet makes the fleet of a space.
	Fleet func(protocol.SpaceID) *device.Fleet
	Log   *slog.Logger
}

// A Service keeps the devices of binding files at work, and follows the files.
type Service struct {
	Options
	files  map[string]*File // as they were right last
	fleets map[protocol.SpaceID]*device.Fleet
	failed string // the fault that was logged
}

// maxFiles bounds the files of a folder.
const maxFiles = 1000

// Open reads the files. At the start there is nothing older that could stay, so
// that a file that is wrong is an error.
func Open(o Options) (*Service, error) {
	s := &Service{Options: o, files: map[string]*File{}, fleets: map[protocol.SpaceID]*device.Fleet{}}
	return s, s.load()
}

const (
	settleFor  = 200 * time.Millisecond // after a change, since editors may write a file in pieces
	lookAnyway = 30 * time.Second       // for file systems that tell of no changes
)

// Run keeps the devices at work and follows the files until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	started := map[protocol.SpaceID]bool{}
	start := func() {
		for space, fleet := range s.fleets {
			if !started[space] {
				started[space] = true
				running.Go(func() { _ = fleet.Run(ctx) })
			}
		}
	}
	changed, stop := s.watch()
	defer stop()
	anyway := time.NewTicker(lookAnyway)
	defer anyway.Stop()
	settled := time.NewTimer(0) // for changes before the watch
	defer settled.Stop()
	for {
		start()
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-changed:
			if !ok {
				changed = nil
				continue
			}
			settled.Reset(settleFor)
		case <-settled.C:
			s.reload()
		case <-anyway.C:
			s.reload()
		}
	}
}

// watch notifies of changes of the files, as far as the system does.
func (s *Service) watch() (changed <-chan fsnotify.Event, stop func()) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		s.Log.Warn("bindings are looked at from time to time only", "error", err)
		return nil, func() {}
	}
	folder := s.Path
	if info, err := os.Stat(s.Path); err != nil || !info.IsDir() {
		folder = filepath.Dir(s.Path) // the file is often replaced by another
	}
	if err := watcher.Add(folder); err != nil {
		s.Log.Warn("bindings are looked at from time to time only", "error", err)
	}
	return watcher.Events, func() { _ = watcher.Close() }
}

// reload puts the present content of the files to work. A wrong file changes
// nothing, and is logged.
func (s *Service) reload() {
	err := s.load()
	switch {
	case err == nil:
		s.failed = ""
	case s.failed != err.Error():
		s.failed = err.Error()
		s.Log.Error("a binding file is wrong, what it said before stays", "error", err)
	}
}

func (s *Service) load() error {
	names, err := s.names()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		text, err := readFile(name)
		var f *File
		if err == nil {
			f, err = Parse(name, text, s.Root)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.files[name] = f
	}
	maps.DeleteFunc(s.files, func(name string, _ *File) bool { return !slices.Contains(names, name) })
	return errors.Join(append(errs, s.apply())...)
}

// names are the files there are, in order.
func (s *Service) names() ([]string, error) {
	info, err := os.Stat(s.Path)
	if err != nil {
		return nil, fmt.Errorf("connect.bindings: %w", err)
	}
	if !info.IsDir() {
		return []string{s.Path}, nil
	}
	var names []string
	for _, pattern := range []string{"*.yaml", "*.yml"} {
		found, err := filepath.Glob(filepath.Join(s.Path, pattern))
		if err != nil {
			return nil, fmt.Errorf("connect.bindings: %w", err)
		}
		names = append(names, found...)
	}
	if len(names) > maxFiles {
		return nil, fmt.Errorf("connect.bindings: %s has more than %d files", s.Path, maxFiles)
	}
	slices.Sort(names)
	return names, nil
}

// apply gives every space its devices. Of two of one id the first stays.
func (s *Service) apply() error {
	var errs []error
	devices := map[protocol.SpaceID][]*device.Device{}
	type place struct {
		space protocol.SpaceID
		agent protocol.AgentID
	}
	owner := map[place]string{}
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		f := s.files[name]
		for _, d := range f.Devices {
			at := place{f.Space, d.Agent}
			if first, taken := owner[at]; taken {
				errs = append(errs, &Fault{name, 1, "devices", fmt.Sprintf("agent %q is in %s already", d.Agent, first)})
				continue
			}
			owner[at] = name
			devices[f.Space] = append(devices[f.Space], d)
		}
	}
	for space := range devices {
		if s.fleets[space] == nil {
			s.fleets[space] = s.Fleet(space)
		}
	}
	for space, fleet := range s.fleets {
		fleet.Set(devices[space])
	}
	return errors.Join(errs...)
}

// readFile reads no more than a file may have, and a byte to tell.
func readFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, MaxFile+1))
}
