package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/store"
)

// What a backup has besides the store, by the names that its places have
// there.
const (
	placeRuns     = "runs"     // packages of workflows, and the files of runs
	placeCaps     = "caps"     // local folders of Caps, and what waits in them for the VFS
	placeModels   = "llm"      // configurations of models that were put to work
	placeSpool    = "audit"    // entries of the audit trail that wait to be stored
	placeContents = "contents" // contents of files
)

// BackupOptions say what a backup has, and who hears of it.
type BackupOptions struct {
	// WithoutContents leaves out the contents of files in the VFS.
	WithoutContents bool
	// Progress is told how far the archive is. Optional.
	Progress func(BackupProgress)
}

// BackupProgress is how far a backup is written, or read.
type BackupProgress = store.Progress

// ErrRunning reports that a bridge works on the data folder.
var ErrRunning = natsd.ErrInUse

// Backup writes everything the bridge with this configuration knows, and
// returns what that is in a few words. The claims of an embedded state are not
// in it: some minutes later they are of no use to anybody. Neither are the
// secrets in the data folder, such as the pepper of the API keys: whoever gets
// hold of a backup shall not be able to use what it has.
//
// It fails with [ErrRunning] if a bridge works on an embedded state: that
// makes backups of itself, see [App].
func Backup(ctx context.Context, config Config, w io.Writer, options BackupOptions) (summary string, err error) {
	err = withStore(ctx, config, func(s *store.Store) error {
		spool, err := spoolFiles(filepath.Join(config.Data, auditSpoolFiles)).read()
		if err != nil {
			return err
		}
		files, err := config.fileSources(ctx, s, options)
		if err != nil {
			return err
		}
		manifest, err := s.Backup(ctx, w, store.BackupOptions{Files: append(files, spool), Progress: options.Progress})
		summary = describe(manifest)
		return err
	})
	return summary, err
}

// CheckBackup reads a backup to its end and returns in a few words what is in
// it. It fails if the backup is cut off or damaged. Progress is optional.
func CheckBackup(r io.Reader, progress func(BackupProgress)) (summary string, err error) {
	manifest, err := store.CheckArchive(r, progress)
	return describe(manifest), err
}

// Restore fills the state and the data folder from a backup. It refuses to
// touch what holds something, unless force is set.
func Restore(ctx context.Context, config Config, r io.Reader, force bool) (summary string, err error) {
	err = withStore(ctx, config, func(s *store.Store) error {
		places, closing, err := config.filePlaces(ctx, s)
		if err != nil {
			return err
		}
		manifest, err := s.Restore(ctx, r, force, places)
		summary = describe(manifest)
		return errors.Join(err, closing())
	})
	return summary, err
}

func describe(m *store.Manifest) string {
	if m == nil {
		return ""
	}
	what := []string{counted(m.Keys, "registration", "registrations")}
	for _, count := range []struct {
		n         int
		one, many string
	}{
		{m.Claims, "claim", "claims"}, {m.Files[placeRuns], "file of workflows", "files of workflows"},
		{m.Files[placeCaps], "file of Caps", "files of Caps"}, {m.Files[placeContents], "content of files", "contents of files"},
	} {
		if count.n > 0 {
			what = append(what, counted(count.n, count.one, count.many))
		}
	}
	return strings.Join(what, ", ") + ", as of " + m.Created.Local().Format(time.DateTime)
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}

// inNATS reports whether contents of files are in NATS.
func (c *Config) inNATS() bool {
	return c.VFS.Store == "nats" || c.VFS.Store == "auto" && c.NATS.URL != ""
}

// vfsDir is the folder for contents of files.
func (c *Config) vfsDir() string {
	if c.VFS.Dir != "" {
		return c.VFS.Dir
	}
	return filepath.Join(c.Data, "vfs")
}

// folders are the folders that are in a backup as they are.
func (c *Config) folders() map[string]string {
	return map[string]string{
		placeRuns:   filepath.Join(c.Data, "runs"),
		placeCaps:   filepath.Join(c.Data, "caps"),
		placeModels: filepath.Join(c.Data, llmHistory),
	}
}

// fileSources are what a backup has besides the store and what waits to be
// stored in the audit trail.
func (c *Config) fileSources(ctx context.Context, s *store.Store, options BackupOptions) ([]store.FileSource, error) {
	var sources []store.FileSource
	folders := c.folders()
	for _, place := range []string{placeRuns, placeCaps, placeModels} {
		t := tree{dir: folders[place]}
		if place == placeRuns {
			t.unit = isRun
		}
		sources = append(sources, store.FileSource{Place: place, Add: t.add})
	}
	switch {
	case options.WithoutContents:
	case c.inNATS():
		blobs, err := s.OpenBlobs(ctx)
		if err != nil {
			return nil, err
		}
		sources = append(sources, store.FileSource{Place: placeContents, Add: blobs.Add})
	default:
		sources = append(sources, store.FileSource{Place: placeContents, Add: contentsIn(c.vfsDir())})
	}
	return sources, nil
}

// filePlaces are where a restore puts what a backup has besides the store.
func (c *Config) filePlaces(ctx context.Context, s *store.Store) (places map[string]store.FilePlace, closing func() error, err error) {
	places = map[string]store.FilePlace{placeSpool: spoolFiles(filepath.Join(c.Data, auditSpoolFiles))}
	for place, dir := range c.folders() {
		places[place] = tree{dir: dir}
	}
	if c.inNATS() {
		blobs, err := s.OpenBlobs(ctx)
		if err != nil {
			return nil, nil, err
		}
		places[placeContents] = blobs
		return places, func() error { return nil }, nil
	}
	blobs := &contents{dir: c.vfsDir()}
	places[placeContents] = blobs
	return places, blobs.close, nil
}
