package site

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/remote"
)

// Times and bounds of files that follow.
const (
	filesStir    = 500 * time.Millisecond // within which changes of files follow together
	checkEvery   = 5 * time.Minute        // between looks whether the centre still has what it had
	compareEvery = 24 * time.Hour         // between comparisons of everything in any case
	tryRefused   = 10 * time.Minute       // until what the centre has refused is tried again
	mostGroups   = 256                    // of files that follow
	partsFrom    = 2 << 20                // bytes of files that are sent in parts: lines of sites break
)

// A follower has the files of groups of this bridge follow to the centre. What is to be
// done comes of a comparison alone: nothing is kept here over a restart.
type follower struct {
	site   *Site
	key    string
	centre *remote.Client // of the key
	groups map[string]*followed
	space  protocol.SpaceID // of them, here

	refused time.Time // when the centre refused a file first that is not tried again yet, zero without any
	freed   bool      // something was deleted there since: there may be room
}

func newFollower(s *Site) *follower {
	return &follower{site: s, groups: map[string]*followed{}}
}

// followFiles has files follow until ctx ends.
func (s *Site) followFiles(ctx context.Context) {
	if len(s.Files) == 0 {
		return
	}
	s.changes.begin()
	defer s.changes.end()
	f := newFollower(s)
	defer f.close()
	defer s.metrics.behind.Set(0)
	pause := firstPause
	for ctx.Err() == nil {
		err := f.round(ctx)
		if ctx.Err() != nil {
			return
		}
		s.complain(filesName, err)
		s.metrics.behind.Set(float64(f.behind()))
		rest, wake := lookEvery, s.changes.wake
		switch {
		case err != nil:
			rest, wake = pause, nil
			pause = min(2*pause, lastPause)
		case f.freed && !f.refused.IsZero():
			continue
		default:
			pause = firstPause
		}
		select {
		case <-time.After(rest):
		case <-wake:
			s.pauses(ctx, filesStir)
		case <-ctx.Done():
		}
	}
}

// filesName is what complaints about all files are called by.
const filesName = "files"

// round has everything follow that has changed. The error is that the centre, or this
// bridge, does not answer: what is left is done by the next round.
func (f *follower) round(ctx context.Context) error {
	if err := f.dial(); err != nil {
		return err
	}
	names, err := f.site.fileGroups(ctx)
	if err != nil {
		return err
	}
	f.keep(f.site.homeSpace(), names)
	f.take(f.site.changes.drain())
	if !f.refused.IsZero() && (f.freed || time.Since(f.refused) > tryRefused) {
		f.tryAgain()
	}
	f.freed = false
	var failed error
	for _, name := range names {
		g := f.groups[name]
		if g.denied != nil && time.Since(g.tried) < lookEvery {
			continue
		}
		g.tried = time.Now()
		switch err := f.settle(ctx, g); {
		case protocol.CodeOf(err) == protocol.VFSUnavailable || ctx.Err() != nil:
			return err
		case again(err):
			failed = cmp.Or(failed, err)
		default:
			g.denied = err
			f.site.complain(g.complaint(f.site), g.trouble())
		}
	}
	return failed
}

// dial makes the client of the centre. Key and roots are read anew every time.
func (f *follower) dial() error {
	key, err := secret(f.site.Key)
	if err != nil {
		return err
	}
	if f.centre != nil && f.key == key {
		return nil
	}
	var trusted *tls.Config
	if f.site.CA != "" {
		if trusted, err = f.site.trusted(); err != nil {
			return err
		}
	}
	f.close()
	f.key = key
	f.centre, err = remote.New(remote.Options{URL: f.site.FilesURL, Credential: key, TLS: trusted, PartsFrom: partsFrom, Alone: true})
	return err
}

func (f *follower) close() {
	if f.centre != nil {
		_ = f.centre.Close()
		f.centre = nil
	}
}

// keep begins to follow groups of a space, and ends to follow those that are not named any more,
// or were of another space: these are other files. What the centre has of them stays there.
func (f *follower) keep(space protocol.SpaceID, names []string) {
	for name, g := range f.groups {
		if space != f.space || !slices.Contains(names, name) {
			f.site.complain(g.complaint(f.site), nil)
			delete(f.groups, name)
		}
	}
	f.space = space
	for _, name := range names {
		if f.groups[name] == nil {
			f.groups[name] = newFollowed(name)
		}
	}
}

// take notes the files that have changed here; all may have.
func (f *follower) take(changed map[changedFile]bool, all bool) {
	if all {
		for _, g := range f.groups {
			g.anew()
		}
	}
	for c := range changed {
		if g := f.groups[c.group]; g != nil && c.space == f.space {
			g.changed(c.path)
		}
	}
}

// tryAgain has what was refused be tried again.
func (f *follower) tryAgain() {
	f.refused = time.Time{}
	for _, g := range f.groups {
		if g.refusals() > 0 {
			g.anew()
		}
	}
}

// behind is the number of groups of which the centre lacks something.
func (f *follower) behind() (n int) {
	for _, g := range f.groups {
		if !g.compared || len(g.dirty) > 0 || g.denied != nil || g.refusals() > 0 {
			n++
		}
	}
	return n
}

// fileGroups lists the groups whose files follow, as far as the principal may read them.
func (s *Site) fileGroups(ctx context.Context) (names []string, err error) {
	more := 0
	for cursor := ""; ; {
		var page struct {
			Groups []struct {
				Name string `json:"group_name"`
			} `json:"groups"`
			Next string `json:"next_cursor"`
		}
		if err := s.do(ctx, "vfs.group.list", listed(cursor, map[string]any{}), &page); err != nil {
			return nil, err
		}
		for _, g := range page.Groups {
			switch {
			case !s.follows(g.Name) || s.foreign(g.Name):
			case len(names) == mostGroups:
				more++
			default:
				names = append(names, g.Name)
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	var over error
	if more > 0 {
		over = protocol.Errorf(protocol.PayloadTooLarge, "%d groups are more than the %d whose files may follow", more+mostGroups, mostGroups)
	}
	s.complain("groups of files", over)
	return names, nil
}

// source are the files of a group here, as the principal may read them.
func (f *follower) source(ctx context.Context, group string) (source, error) {
	who, err := f.site.principal(ctx)
	if err != nil {
		return nil, err
	}
	files, err := f.site.LocalFiles(ctx, who, group)
	if err != nil {
		return nil, err
	}
	local, ok := files.(source)
	if !ok {
		return nil, protocol.Errorf(protocol.InvalidState, "the files of group %q are kept in another VFS, and do not follow", group)
	}
	return local, nil
}

// A source is where the files of a group are here: one that tells their versions.
type source interface {
	vfs.Files
	vfs.Historian
}

// settle has the files of a group follow: those that have changed, or all that differ if
// that is not known.
func (f *follower) settle(ctx context.Context, g *followed) error {
	here, err := f.source(ctx, g.name)
	if err != nil {
		return err
	}
	if err := f.check(ctx, g); err != nil {
		return err
	}
	s := &sending{follower: f, group: g, here: here, there: f.site.named(g.name)}
	if !g.compared {
		if err := s.compare(ctx); err != nil {
			return s.failed(err)
		}
	}
	for path := range g.dirty {
		if err := s.followOne(ctx, path); err != nil {
			return s.failed(err)
		}
	}
	if err := s.flush(ctx); err != nil {
		return s.failed(err)
	}
	if s.wrote { // and nobody else has
		g.revision, err = f.centre.Revision(ctx, s.there, "")
	}
	return err
}

// check has a group compared anew if the centre may not have any more what it had, as after
// a backup was restored there.
func (f *follower) check(ctx context.Context, g *followed) error {
	if g.compared && g.denied == nil && time.Since(g.checked) < checkEvery {
		return nil
	}
	revision, err := f.centre.Revision(ctx, f.site.named(g.name), "")
	if err != nil {
		return err
	}
	if g.compared && (revision == "" || revision != g.revision || time.Since(g.since) > compareEvery) {
		g.anew()
	}
	g.revision, g.checked = revision, time.Now()
	return nil
}

// complaint is what complaints about a group are called by.
func (g *followed) complaint(s *Site) string { return "files of " + s.named(g.name) }

// again reports whether a group follows with the next round after an error, as when the
// line is lost.
func again(err error) bool {
	switch protocol.CodeOf(err) {
	case protocol.RevisionConflict, protocol.FileNotFound, protocol.NotFound, protocol.SyncFailed:
		return true // somebody has changed the file there, or ended its upload, or the line has broken off in it
	}
	return passes(err)
}

// isRefused reports whether the centre, or this bridge, refuses a file for what it is, and
// will do so again.
func isRefused(err error) bool {
	switch protocol.CodeOf(err) {
	case protocol.NoSpace, protocol.PayloadTooLarge, protocol.InvalidParameter, protocol.AlreadyExists:
		return true
	}
	return errors.Is(err, errDamaged)
}

// errDamaged is the cause of the error for a content that is damaged here.
var errDamaged = errors.New("the content is damaged here")
