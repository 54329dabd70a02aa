package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// Bounds of small files that are sent together.
const (
	batchFiles = 200
	batchBytes = 256 << 10
	smallFile  = 64 << 10
)

// A sending has files of a group follow to the centre.
type sending struct {
	*follower
	group *followed
	here  source
	there string // the group at the centre

	batch []vfs.Content // small files that are sent together, each of another path
	bytes int
	wrote bool // something has changed at the centre
}

// compare has everything follow that differs: both sides are listed by path, deleted files
// too. What is deleted here is deleted there; what is merely missing here is not.
func (s *sending) compare(ctx context.Context) error {
	g := s.group
	here := &pages{cursor: g.cursor, list: func(cursor string) ([]vfs.File, string, error) {
		return s.here.List(ctx, g.name, "", cursor, vfs.MaxLimit, true)
	}}
	there := &pages{cursor: g.cursor, list: func(cursor string) ([]vfs.File, string, error) {
		return s.centre.List(ctx, s.there, "", cursor, vfs.MaxLimit, true)
	}}
	for {
		h, err := here.head()
		if err != nil {
			return err
		}
		t, err := there.head()
		if err != nil {
			return err
		}
		path := ""
		switch {
		case h == nil && t == nil:
			if err := s.flush(ctx); err != nil {
				return err
			}
			g.compared, g.cursor, g.since = true, "", time.Now()
			return nil
		case t == nil || h != nil && h.Path <= t.Path:
			path = h.Path
			if t != nil && t.Path == path {
				there.next()
			} else {
				t = nil
			}
			here.next()
			if err := s.follow(ctx, h, t); err != nil {
				return err
			}
		default:
			if path = t.Path; !t.Deleted {
				g.strange++
			}
			there.next()
		}
		if len(s.batch) == 0 {
			g.cursor = path
		}
	}
}

// followOne has a file follow that has changed here.
func (s *sending) followOne(ctx context.Context, path string) error {
	here, err := newest(ctx, s.here, s.group.name, path)
	if err != nil || here == nil {
		if err == nil {
			s.ends(path, nil) // it is forgotten here
		}
		return err
	}
	there, err := newest(ctx, s.centre, s.there, path)
	if err != nil {
		return err
	}
	return s.follow(ctx, here, there)
}

// newest is the newest version of a file, also one that says it is gone; nil if there is
// none.
func newest(ctx context.Context, files vfs.Files, group, path string) (*vfs.File, error) {
	found, _, err := files.List(ctx, group, path, "", 1, true)
	if err != nil || len(found) == 0 || found[0].Path != path {
		return nil, err
	}
	return &found[0], nil
}

// follow has the versions of a file follow that the centre lacks. here and there are the
// newest ones at both ends, there is nil if the centre never had any.
func (s *sending) follow(ctx context.Context, here, there *vfs.File) error {
	if there != nil && here.Deleted == there.Deleted && (here.Deleted || here.SHA256 == there.SHA256 && changedAt(here) == there.Mtime) {
		s.ends(here.Path, nil)
		return nil
	}
	versions, err := s.here.Versions(ctx, s.group.name, here.Path)
	if protocol.CodeOf(err) == protocol.FileNotFound {
		s.ends(here.Path, nil)
		return nil
	}
	if err != nil {
		return err
	}
	lacks := behind(versions, there)
	if len(lacks) == 1 && !lacks[0].Deleted && lacks[0].Size <= smallFile {
		return s.together(ctx, &lacks[0], there)
	}
	var refused error
	for i := range lacks {
		v := &lacks[i]
		now, err := s.one(ctx, v, there)
		switch {
		case err == nil:
			there, refused = &now, nil
		case errors.Is(err, errGone):
		case isRefused(err): // an older version is left out if a newer one follows
			s.metrics().followed(err, 0)
			refused = err
			s.noRoomFor(v.Size, err)
		default:
			return err
		}
	}
	s.ends(here.Path, refused)
	return nil
}

// ends notes how a file has followed: as far as it can, or not.
func (s *sending) ends(path string, refused error) {
	delete(s.group.dirty, path)
	delete(s.group.refused, path)
	if refused == nil {
		return
	}
	s.group.refuses(path, refused)
	if s.refused.IsZero() {
		s.refused = time.Now()
	}
}

// noRoomFor notes a size that had no room.
func (s *sending) noRoomFor(size int64, err error) {
	if protocol.CodeOf(err) == protocol.NoSpace {
		s.group.noRoom = min(s.group.noRoom, size)
	}
}

func (f *follower) metrics() *metrics { return f.site.metrics }

// failed is the error of a group. After a conflict the group is compared anew.
func (s *sending) failed(err error) error {
	if protocol.CodeOf(err) == protocol.RevisionConflict {
		s.group.anew()
	}
	return err
}

// errGone is the error of a version that is not kept here any more.
var errGone = errors.New("the version is not kept any more")

// errNoRoom is the refusal of what is as large as something that had no room just now.
func (s *sending) errNoRoom() error {
	return vfs.NoRoom(fmt.Sprintf("the centre has no room for files of %d bytes", s.group.noRoom))
}

// version is the version that a file has at the centre, 0 if it is not there.
func version(there *vfs.File) uint64 {
	if there == nil || there.Deleted {
		return 0
	}
	return there.Version
}

// one has one version follow the one that the centre has.
func (s *sending) one(ctx context.Context, v, there *vfs.File) (vfs.File, error) {
	if v.Deleted {
		gone, err := s.centre.Delete(ctx, s.there, v.Path, version(there))
		if protocol.CodeOf(err) == protocol.FileNotFound {
			return vfs.File{Path: v.Path, Deleted: true}, nil
		}
		if err == nil {
			s.metrics().followed(nil, 0)
			s.freed, s.wrote = true, true
		}
		return gone, err
	}
	if v.Size >= s.group.noRoom {
		return vfs.File{}, s.errNoRoom()
	}
	content, _, err := s.here.Open(ctx, s.group.name, v.Path, v.Version)
	if err != nil {
		return vfs.File{}, unreadable(err)
	}
	defer content.Close()
	r := &faithful{ReadSeekCloser: content}
	now, err := s.centre.PutFile(ctx, s.there, v.Path, r, putOptions(v, there))
	if err != nil && r.err != nil {
		return vfs.File{}, unreadable(r.err)
	}
	if err == nil {
		s.metrics().followed(nil, v.Size)
		s.wrote = true
	}
	return now, err
}

// putOptions describe a version to the centre.
func putOptions(v, there *vfs.File) vfs.PutOptions {
	base, sum := version(there), v.SHA256
	return vfs.PutOptions{IfVersion: &base, Size: v.Size, SHA256: &sum, ContentType: v.ContentType, Mtime: changedAt(v)}
}

// A faithful reader notes an error of the content here.
type faithful struct {
	io.ReadSeekCloser
	err error
}

// Read implements [io.Reader].
func (f *faithful) Read(p []byte) (int, error) {
	n, err := f.ReadSeekCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

// unreadable is the error for a content that is damaged here, or not kept any more; any other
// may pass.
func unreadable(err error) error {
	switch protocol.CodeOf(err) {
	case protocol.FileNotFound:
		return errGone
	case protocol.SyncFailed:
		return protocol.Wrap(protocol.SyncFailed, errors.Join(errDamaged, err), "the content is damaged here")
	}
	return err
}

// together has a small file follow with others in one request.
func (s *sending) together(ctx context.Context, v, there *vfs.File) error {
	if v.Size >= s.group.noRoom {
		s.metrics().followed(s.errNoRoom(), 0)
		s.ends(v.Path, s.errNoRoom())
		return nil
	}
	data, err := s.read(ctx, v)
	switch {
	case errors.Is(err, errGone): // it has just changed, and follows as what it is then
		return nil
	case isRefused(err):
		s.metrics().followed(err, 0)
		s.ends(v.Path, err)
		return nil
	case err != nil:
		return err
	}
	if len(s.batch) == batchFiles || s.bytes+len(data) > batchBytes || s.group.denied != nil {
		if err := s.flush(ctx); err != nil {
			return err
		}
	}
	s.batch = append(s.batch, vfs.Content{Path: v.Path, Data: data, PutOptions: putOptions(v, there)})
	s.bytes += len(data)
	return nil
}

// read reads a small version.
func (s *sending) read(ctx context.Context, v *vfs.File) ([]byte, error) {
	content, _, err := s.here.Open(ctx, s.group.name, v.Path, v.Version)
	if err != nil {
		return nil, unreadable(err)
	}
	defer content.Close()
	data, err := io.ReadAll(content)
	if err != nil {
		return nil, unreadable(err)
	}
	return data, nil
}

// flush sends the files that go together.
func (s *sending) flush(ctx context.Context) error {
	if len(s.batch) == 0 {
		return nil
	}
	results, err := s.centre.PutBatch(ctx, s.there, s.batch)
	if err != nil {
		return err
	}
	var failed error
	for i, r := range results {
		sent := &s.batch[i]
		if r.Err != nil && !isRefused(r.Err) {
			failed = r.Err
			continue
		}
		s.metrics().followed(r.Err, int64(len(sent.Data)))
		s.wrote = s.wrote || r.Err == nil
		s.noRoomFor(sent.Size, r.Err)
		s.ends(sent.Path, r.Err)
	}
	s.batch, s.bytes = nil, 0
	return failed
}

// pages are a list of files, page by page.
type pages struct {
	list   func(cursor string) ([]vfs.File, string, error)
	files  []vfs.File
	cursor string
	ended  bool
}

// head is the first file of the rest, nil at the end.
func (p *pages) head() (*vfs.File, error) {
	for len(p.files) == 0 && !p.ended {
		files, next, err := p.list(p.cursor)
		if err != nil {
			return nil, err
		}
		p.files, p.cursor, p.ended = files, next, next == ""
	}
	if len(p.files) == 0 {
		return nil, nil
	}
	return &p.files[0], nil
}

// next goes on to the next file.
func (p *pages) next() { p.files = p.files[1:] }
