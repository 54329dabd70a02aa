package site

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/aibridge/aibridge/vfs"
)

// A followed is a group of files that follows to the centre.
type followed struct {
	name string // here

	compared bool            // everything was: dirty has what is to follow since
	since    time.Time       // when it was
	cursor   string          // the path up to which everything is compared
	dirty    map[string]bool // paths of what has changed

	revision string    // of the group at the centre when it was last asked
	checked  time.Time // when it was

	tried   time.Time        // when it was to follow last
	noRoom  int64            // the least size that had no room at the centre just now
	denied  error            // why none of it follows, nil if it does
	refused map[string]error // why files do not, at most mostRefused
	more    int              // of such files beyond
	strange int              // files that only the centre has, though none was deleted here
}

// Bounds of what is noted of a group.
const (
	mostRefused = 100
	mostDirty   = 100 // beyond which it is quicker to compare everything
)

func newFollowed(name string) *followed {
	return &followed{name: name, noRoom: math.MaxInt64, dirty: map[string]bool{}, refused: map[string]error{}}
}

// anew has everything be compared.
func (g *followed) anew() {
	g.compared, g.cursor, g.noRoom, g.more, g.strange = false, "", math.MaxInt64, 0, 0
	clear(g.dirty)
	clear(g.refused)
}

// changed notes that a file has changed here. One that a comparison has not come to yet is
// compared by it.
func (g *followed) changed(path string) {
	if !g.compared && path > g.cursor {
		return
	}
	if g.dirty[path] = true; len(g.dirty) > mostDirty {
		g.anew()
	}
}

// refuses notes why a file does not follow.
func (g *followed) refuses(path string, err error) {
	if g.refused[path] == nil && len(g.refused) == mostRefused {
		g.more++
		return
	}
	g.refused[path] = err
}

// refusals is the number of files that do not follow.
func (g *followed) refusals() int { return len(g.refused) + g.more }

// trouble is why not all of the group follows, nil if it does.
func (g *followed) trouble() error {
	if g.denied != nil {
		return g.denied
	}
	if n := g.refusals(); n > 0 {
		first := slices.Min(slices.Collect(maps.Keys(g.refused)))
		if n == 1 {
			return fmt.Errorf("%s: %w", first, g.refused[first])
		}
		return fmt.Errorf("%s and %d more: %w", first, n-1, g.refused[first])
	}
	if g.strange > 0 {
		return fmt.Errorf("%d files that the centre has are not here, and were not deleted here: they stay there", g.strange)
	}
	return nil
}

// changedAt is the time of a version of a file here, by which it is known at the centre:
// when its content was changed last, or else when the version was made. Unix milliseconds.
func changedAt(f *vfs.File) int64 {
	if f.Mtime != 0 {
		return f.Mtime
	}
	return f.Modified.UnixMilli()
}

// behind are the versions of a file that the centre lacks, the oldest first. here are those
// that are kept here, the oldest first, and there is the newest one at the centre; nil if it
// has never been there. Where it cannot be told which of them the centre has, all that are
// kept follow: the last one is the newest in any case.
func behind(here []vfs.File, there *vfs.File) []vfs.File {
	if len(here) == 0 || here[len(here)-1].Deleted && (there == nil || there.Deleted) {
		return nil
	}
	newest := &here[len(here)-1]
	at := -1
	for i := len(here) - 1; i >= 0 && at < 0 && there != nil; i-- {
		h := &here[i]
		if h.Deleted == there.Deleted && (h.Deleted || h.SHA256 == there.SHA256 && changedAt(h) == there.Mtime) {
			at = i
		}
	}
	if at < 0 && there != nil && !there.Deleted && !newest.Deleted && newest.SHA256 == there.SHA256 {
		return nil
	}
	var lacks []vfs.File
	last := there
	for i := range here[at+1:] {
		h := &here[at+1+i]
		was := last != nil && !last.Deleted
		if h.Deleted && !was || !h.Deleted && was && last.SHA256 == h.SHA256 {
			continue // the centre has nothing to delete, or this content
		}
		lacks, last = append(lacks, *h), h
	}
	return lacks
}
