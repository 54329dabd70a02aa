package mirror

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"slices"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// A Writing is a small file to be stored at both ends.
type Writing struct {
	Path    string
	Content []byte
	Mtime   int64 // when it was changed last, Unix milliseconds; 0 is now

	Err error // why it is not written, set by WriteAll
}

// WriteAll is [Engine.WriteDated] for many small files, of different paths, without
// waiting for the VFS. Each file succeeds or fails by itself. They are synced
// together, and noted together before they are sent. An error means that the
// written files may not be noted.
func (e *Engine) WriteAll(ctx context.Context, list []*Writing) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e.turn.Lock() // with clearing, excludes all others that hold several paths
	defer e.turn.Unlock()
	e.clearing.Lock()
	defer e.clearing.Unlock()
	list = slices.SortedFunc(slices.Values(list), func(a, b *Writing) int { return cmp.Compare(a.Path, b.Path) })
	for _, w := range list {
		if w.Err = e.mayWrite(w.Path); w.Err == nil {
			defer e.locks.lock(w.Path)()
		}
	}
	if err := e.writeAllHere(list); err != nil {
		return localError(err)
	}
	e.Wake()
	return nil
}

// mayWrite refuses paths that cannot be mirrored.
func (e *Engine) mayWrite(path string) error {
	if reason := tree.CheckPath(path); reason != "" {
		return protocol.InvalidParam("path", reason)
	}
	if e.ignored(path) {
		return errIgnored(path)
	}
	return nil
}

// writeAllHere puts files into the folder and notes durably that they are to be
// sent. The paths are locked.
func (e *Engine) writeAllHere(list []*Writing) error {
	fresh := make(map[*Writing]*tree.Replacement)
	var wanted []*Writing
	for _, w := range list {
		if w.Err == nil {
			wanted = append(wanted, w)
			fresh[w] = &tree.Replacement{Name: w.Path}
		}
	}
	inParallel(e.o.Workers, wanted, func(w *Writing) {
		r := fresh[w]
		if r.Seen, w.Err = e.folder.Stat(w.Path); w.Err == nil && !e.has(w, r.Seen) {
			r.File, w.Err = e.save(w.Content, w.Mtime)
		}
	})
	var places []*tree.Replacement
	for _, w := range wanted {
		if r := fresh[w]; r.File != nil {
			defer r.File.Discard()
			places = append(places, r)
		}
	}
	e.folder.ReplaceAll(places)
	var written []string
	for _, w := range wanted {
		if w.Err == nil {
			w.Err = fresh[w].Err
		}
		if w.Err != nil {
			w.Err = localError(w.Err)
			continue
		}
		e.work.add(w.Path)
		written = append(written, w.Path)
	}
	return e.state.enqueueAll(written)
}

// has reports whether the file here equals the one to be written.
func (e *Engine) has(w *Writing, seen tree.Stamp) bool {
	if seen.Absent() || seen.Size != int64(len(w.Content)) {
		return false
	}
	file, stamp, err := e.folder.Open(w.Path)
	if err != nil {
		return false
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, seen.Size+1))
	return err == nil && stamp == seen && bytes.Equal(content, w.Content)
}
