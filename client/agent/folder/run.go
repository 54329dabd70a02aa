package folder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror"
)

// Options configure [Run]. Dir, Cap and Files are needed.
type Options struct {
	Dir   string         // the device's folder, made if it is not there
	Cap   protocol.CapID // whose disk it is kept the same as
	Files vfs.Files      // of the bridge

	// Apart are the folders that programs are run from. Dir must not be one of
	// them, nor within or around one: a right to write files of the Cap must not
	// become a right to run programs on the device.
	Apart []string

	Rule     mirror.Rule   // the side that wins a conflict; remote_wins
	Interval time.Duration // between two looks at everything; 1 minute
	Origin   string        // names the device in the names of copies that lost a conflict
	Log      *slog.Logger  // slog.Default
}

// Open checks the options and opens the folder.
func Open(o Options) (*Folder, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if reason := o.Cap.Rule().Check(string(o.Cap)); reason != "" {
		return nil, errors.New("the Cap's id " + reason)
	}
	for _, other := range o.Apart {
		if err := apart(o.Dir, other); err != nil {
			return nil, err
		}
	}
	breaker := mirror.NewBreaker(func(ctx context.Context) error {
		_, _, err := o.Files.List(ctx, vfs.MirrorGroup, disk(o.Cap)+"/", "", 1, false)
		return err
	}, mirror.BreakerOptions{OnChange: func(c mirror.Circuit) { o.Log.Info("way to the VFS", "circuit", c) }})
	f := &Folder{breaker: breaker, origin: o.Origin, moved: make(chan struct{}, 1), every: reportEvery, log: o.Log}
	var err error
	f.engine, err = mirror.Open(mirror.Options{
		Dir: o.Dir, Remote: mirror.NewRemoteFolder(o.Files, vfs.MirrorGroup, disk(o.Cap)), Breaker: breaker,
		Rule: o.Rule, Origin: o.Origin, Interval: o.Interval, RealTime: true, Log: o.Log,
		OnRound: func(mirror.Status) { f.tell() },
	})
	if err != nil {
		return nil, fmt.Errorf("folder %s: %w", o.Dir, err)
	}
	return f, nil
}

// disk is the folder of a Cap's files in the mirror.
func disk(id protocol.CapID) string { return vfs.MirrorFolder(id) + "/disk" }

// A Folder is a folder that is kept the same.
type Folder struct {
	engine  *mirror.Engine
	breaker *mirror.Breaker
	origin  string
	moved   chan struct{} // signalled when there is something new to report
	send    func(context.Context, Report, []Obeyed) (Orders, error)
	every   time.Duration // between two reports
	log     *slog.Logger
}

// Status returns the state of the folder.
func (f *Folder) Status() mirror.Status { return f.engine.Status() }

// tell has the folder reported soon.
func (f *Folder) tell() {
	select {
	case f.moved <- struct{}{}:
	default:
	}
}

// Run keeps the folder the same until ctx ends, and lets go of it then. While
// the bridge is away, changes are gathered.
func (f *Folder) Run(ctx context.Context) error {
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return f.breaker.Run(running) })
	group.Go(func() error { return f.engine.Run(running) })
	group.Go(func() error { return f.reports(running) })
	return errors.Join(group.Wait(), f.engine.Close())
}

// apart refuses two folders of which one is in the other, or the same, once
// links are followed.
func apart(dir, other string) error {
	a, err := resolve(dir)
	if err != nil {
		return err
	}
	b, err := resolve(other)
	if err != nil {
		return err
	}
	if inside(a, b) || inside(b, a) || same(a, b) {
		return fmt.Errorf("folder %s may not overlap %s, from which programs are run", dir, other)
	}
	return linksInto(b, a)
}

// linksInto refuses a folder of programs in which a link leads into the synced
// one.
func linksInto(programs, synced string) error {
	err := filepath.WalkDir(programs, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink == 0 {
			return nil //nolint:nilerr // what cannot be read cannot be run either
		}
		if target, err := resolve(path); err == nil && inside(target, synced) {
			return fmt.Errorf("%s leads into the synced folder, whose files must not be run", path)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// resolve follows links, of as much of a path as there is.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path {
		above, err := resolve(filepath.Dir(path))
		return filepath.Join(above, filepath.Base(path)), err
	}
	return resolved, err
}

// inside reports whether a path is a folder or in it.
func inside(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// same recognises one folder under two names, such as in another case.
func same(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}
