package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aibridge/aibridge/internal/store"
)

// Options hold the sources of a backup, and the listeners to its progress.
type Options struct {
	// WithoutContents leaves out the contents of files in the VFS.
	WithoutContents bool
	// Progress is called with the progress of the archive. Optional.
	Progress func(Progress)
}

// Progress is the part of a backup that is written, or read.
type Progress = store.Progress

// Write writes the whole state of a stopped bridge, and returns a summary in a few
// words.
func Write(ctx context.Context, s *store.Store, from Places, w io.Writer, o Options) (summary string, err error) {
	spool, err := spoolFiles(from.Spool).read()
	if err != nil {
		return "", err
	}
	files, err := from.sources(ctx, s, o.WithoutContents)
	if err != nil {
		return "", err
	}
	manifest, err := s.Backup(ctx, w, store.BackupOptions{Files: append(files, spool), Progress: o.Progress})
	return describe(manifest), err
}

// Check reads a backup to its end and returns a summary in a few words. It fails if
// the backup is cut off or damaged. Progress is optional.
func Check(r io.Reader, progress func(Progress)) (summary string, err error) {
	manifest, err := store.CheckArchive(r, progress)
	return describe(manifest), err
}

// Restore fills the state of a stopped bridge and its places from a backup, and
// returns a summary in a few words. It refuses to replace a state that is not
// empty, unless force is set.
func Restore(ctx context.Context, s *store.Store, to Places, r io.Reader, force bool) (summary string, err error) {
	places, closing, err := to.open(ctx, s)
	if err != nil {
		return "", err
	}
	manifest, err := s.Restore(ctx, r, force, places)
	return describe(manifest), errors.Join(err, closing())
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
