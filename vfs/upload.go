package vfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/protocol"
)

// Uploads that can be resumed: a file that comes in parts, over connections that break
// and bridges that restart. The parts so far are the content of a record in a space without
// principals, so they are stored as all contents are and share chunks with the version before: each
// part is written once. The content of a finished upload becomes the file's without being moved.

// staging is the space of the parts of unfinished files. No space of principals has
// this name.
const staging protocol.SpaceID = "\x01"

// UploadStep divides the number of bytes that an unfinished upload has: bytes
// beyond the last step are sent again after a connection breaks.
const UploadStep = minChunked

// Bounds of uploads. A principal has a quarter of them, and a space half (package fair).
const (
	maxUploads   = 1024
	uploadedWhen = 24 * time.Hour // without a part, after which an upload is given up
	// stagedFiles is the room for uploads that were begun, in files of the largest size.
	stagedFiles = 8
)

// A Resumable describes a file that is uploaded in parts, as the client announced it.
type Resumable struct {
	Owner protocol.Party   `json:"owner"`
	Space protocol.SpaceID `json:"space"` // of the file
	Group string           `json:"group"`
	Path  string           `json:"path"`
	Begun int64            `json:"begun"` // Unix milliseconds

	Size        int64   `json:"size"`
	SHA256      *Sum    `json:"sha256,omitempty"`     // nil if it is not known yet
	IfVersion   *uint64 `json:"if_version,omitempty"` // see [PutOptions]
	ContentType string  `json:"type,omitempty"`
	Mtime       int64   `json:"mtime,omitempty"` // Unix milliseconds
}

// A ResumableState is the progress of an upload.
type ResumableState struct {
	Resumable
	ID       string
	Received int64     // bytes: where to go on
	Expires  time.Time // when it is given up unless more comes
}

// uploads are the unfinished uploads, by id. They follow the table.
type uploads struct {
	mu     sync.Mutex
	byID   map[string]*Record
	adding map[string]bool // a part comes
}

func (u *uploads) changed(_ string, old, now *Record) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case now != nil && now.Upload != nil:
		u.byID[now.Path] = now
	case old != nil && old.Upload != nil:
		delete(u.byID, old.Path)
	}
}

// stagingGroup is the group of a principal's uploads, whose quota they share.
func stagingGroup(owner protocol.Party) string {
	sum := sha256.Sum256([]byte(owner.String()))
	return hex.EncodeToString(sum[:16])
}

// state describes a record of an upload.
func (r *Record) state() ResumableState {
	v := r.current()
	return ResumableState{Resumable: *r.Upload, ID: r.Path, Received: v.Size, Expires: time.UnixMilli(v.Modified).Add(uploadedWhen)}
}

// BeginUpload begins an upload of a principal, who may write the group. Room for
// its bytes is reserved: the error is 4008 if too many uploads have been begun,
// 4005 if they are too large together.
func (s *Store) BeginUpload(ctx context.Context, who *protocol.Principal, u Resumable) (ResumableState, error) {
	u.Owner, u.Space, u.Begun = who.Party(), who.Home(), s.opts.Now().UnixMilli()
	o := PutOptions{Size: u.Size, ContentType: u.ContentType, Mtime: u.Mtime}
	if err := s.Space(u.Space).checkPut(ctx, u.Group, u.Path, o, u.Size); err != nil {
		return ResumableState{}, err
	}
	now := s.opts.Now()
	s.index.mu.Lock()
	number := s.index.number(now)
	s.index.mu.Unlock()
	r := &Record{
		Space: staging, Group: stagingGroup(u.Owner), Path: protocol.NewID(), ID: protocol.NewID(), Upload: &u,
		First: number, Versions: []Version{{Number: number, Modified: now.UnixMilli(), SHA256: sha256.Sum256(nil)}},
	}
	if err := s.uploads.enter(fair.Of(who), r, stagedFiles*s.opts.MaxFile, s.opts.Allot); err != nil {
		return ResumableState{}, err
	}
	if _, err := s.opts.Records.Create(ctx, r.key(), r); err != nil {
		if _, _, there := s.opts.Records.Get(r.key()); !there {
			s.uploads.changed("", r, nil)
		}
		return ResumableState{}, err
	}
	return r.state(), nil
}

// enter takes in an upload that is about to be stored, if there is room. Those into groups that
// have room together have no more than that.
func (u *uploads) enter(who fair.Party, r *Record, bytes int64, allot func(protocol.SpaceID, string) (string, int64)) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	begun := r.Upload
	var count, size struct{ own, space, all int64 }
	for _, r := range u.byID {
		count.all++
		size.all += r.Upload.Size
		if r.Upload.Space == begun.Space {
			count.space++
			size.space += r.Upload.Size
		}
		if r.Upload.Owner == begun.Owner {
			count.own++
			size.own += r.Upload.Size
		}
	}
	own, space := fair.Share(maxUploads, who)
	if count.own >= own || count.space >= space || count.all >= maxUploads {
		return protocol.BusyFor(time.Minute, "too many uploads are under way: finish or abort some")
	}
	own, space = fair.Share(bytes, who)
	if size.own+begun.Size > own || size.space+begun.Size > space || size.all+begun.Size > bytes {
		return NoRoom("too many large uploads are under way: finish or abort some")
	}
	if err := u.sharesRoom(begun, allot); err != nil {
		return err
	}
	u.byID[r.Path] = r
	return nil
}

// sharesRoom refuses an upload that has no room beside the others into groups that have room
// together. The lock is held.
func (u *uploads) sharesRoom(begun *Resumable, allot func(protocol.SpaceID, string) (string, int64)) error {
	if allot == nil {
		return nil
	}
	name, room := allot(begun.Space, begun.Group)
	if name == "" {
		return nil
	}
	left := room - begun.Size
	for _, r := range u.byID {
		if other, _ := allot(r.Upload.Space, r.Upload.Group); other == name && r.Upload.Space == begun.Space {
			left -= r.Upload.Size
		}
	}
	if left < 0 {
		return NoRoom(fmt.Sprintf("the uploads of %s that are under way have a room of %d bytes: finish or abort some", name, room))
	}
	return nil
}

// add has one part of an upload come at a time, until added is called.
func (u *uploads) add(id string) (added func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.adding[id] {
		return nil, protocol.BusyFor(time.Second, "another part of this upload comes")
	}
	u.adding[id] = true
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.adding, id)
	}, nil
}

// uploadWith is the upload of a principal, of which so many bytes should have come: if it is
// not there, or has fewer, other bridges may know more.
func (s *Store) uploadWith(ctx context.Context, who *protocol.Principal, id string, received int64) (r *Record, err error) {
	s.shows(ctx, func() bool {
		r, err = s.upload(who, id)
		return err == nil && r.current().Size >= received
	})
	return r, err
}

// upload finds an upload of a principal. To others it is not there.
func (s *Store) upload(who *protocol.Principal, id string) (*Record, error) {
	s.uploads.mu.Lock()
	defer s.uploads.mu.Unlock()
	r := s.uploads.byID[id]
	if r == nil || r.Upload.Owner != who.Party() || r.Upload.Space != who.Home() {
		return nil, protocol.Errorf(protocol.FileNotFound, "there is no such upload: it has ended, or was given up").With("upload_id", id)
	}
	return r, nil
}

// FindUpload returns the progress of a principal's upload; 4003 if it has none of this
// id.
func (s *Store) FindUpload(ctx context.Context, who *protocol.Principal, id string) (ResumableState, error) {
	r, err := s.uploadWith(ctx, who, id, 0)
	if err != nil {
		return ResumableState{}, err
	}
	return r.state(), nil
}

// Uploads are the uploads of a principal, by the time of their beginning.
func (s *Store) Uploads(who *protocol.Principal) []ResumableState {
	var all []ResumableState
	s.uploads.mu.Lock()
	for _, r := range s.uploads.byID {
		if r.Upload.Owner == who.Party() && r.Upload.Space == who.Home() {
			all = append(all, r.state())
		}
	}
	s.uploads.mu.Unlock()
	slices.SortFunc(all, func(x, y ResumableState) int {
		if x.Begun != y.Begun {
			return int(x.Begun - y.Begun)
		}
		return strings.Compare(x.ID, y.ID)
	})
	return all
}

// Append adds a part to an upload, which begins where the upload ends: another offset is
// 3003, with the right one in details.offset. Of a part that breaks off the whole steps are kept;
// the state then holds the progress, and the error the reason. While another part is being added
// the error is 4008.
func (s *Store) Append(ctx context.Context, who *protocol.Principal, id string, offset int64, part io.Reader) (ResumableState, error) {
	r, err := s.uploadWith(ctx, who, id, offset)
	if err != nil {
		return ResumableState{}, err
	}
	added, err := s.uploads.add(id)
	if err != nil {
		return r.state(), err
	}
	defer added()
	if r, err = s.upload(who, id); err != nil { // the part before may just have come
		return ResumableState{}, err
	}
	if received := r.current().Size; offset != received {
		return r.state(), protocol.Errorf(protocol.RevisionConflict, "the upload has %d bytes: go on there", received).With("offset", received).With("upload_id", id)
	}
	in, space := &breaking{r: &source{ctx: ctx, r: part, left: r.Upload.Size - offset + 1}}, s.Space(staging)
	if offset == r.Upload.Size {
		return r.state(), in.why(true, r.Upload.Path)
	}
	ctx = context.WithoutCancel(ctx) // which ends with the connection: the reader tells of that, and what has come is kept
	b := space.base(ctx, r.Group, id, r.current().Number)
	defer b.close()
	if b == nil && offset > 0 {
		return r.state(), baseDamaged(r.Upload.Path)
	}
	c := &received{}
	err = s.assemble(ctx, r.Upload.Path, c, b, PutOptions{Size: -1}, func(a *assembly) error { return a.append(in, r.Upload.Size) })
	if err != nil {
		return r.state(), err
	}
	defer c.abort()
	if c.size > offset {
		current := r.current().Number
		w := &writing{Space: space, group: r.Group, path: id, options: PutOptions{IfVersion: &current}, content: c, alone: true}
		if _, err := w.run(ctx); err != nil {
			return r.state(), err
		}
		r = w.result
	}
	return r.state(), in.why(c.size == r.Upload.Size, r.Upload.Path)
}

// append adds a reader's content to the version before, in whole steps, up to total bytes. An error
// of the reader counts as its end.
func (a *assembly) append(r *breaking, total int64) error {
	if a.base != nil {
		before := len(a.base.list.sums)
		a.resume(before)
		chunk := make([]byte, ChunkSize)
		for i := len(a.list.sums); i < before; i++ {
			if _, err := a.next(i, chunk[:chunkLength(a.base.list.size, i)], true, nil); err != nil {
				return err
			}
		}
	}
	step := make([]byte, UploadStep)
	for a.list.size < total {
		step := step[:min(UploadStep, total-a.list.size)]
		if _, err := io.ReadFull(r, step); err != nil {
			return nil
		}
		if err := a.addAll(step); err != nil {
			return err
		}
	}
	return nil
}

// A breaking reader notes why it ends.
type breaking struct {
	r   io.Reader
	err error
}

// Read implements [io.Reader].
func (b *breaking) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil {
		b.err = err
	}
	return n, err
}

// why is the error of a part that broke off, or is longer than the rest of its file.
func (b *breaking) why(whole bool, path string) error {
	if whole && b.err == nil {
		if n, _ := b.r.Read(make([]byte, 1)); n > 0 {
			return BadContent(path, "is longer than announced")
		}
	}
	if whole || b.err == nil || errors.Is(b.err, io.EOF) {
		return nil
	}
	return brokenOff(b.err)
}

// FinishUpload makes a version of the file of an upload that is whole, in files that its
// principal may write: 3006 while bytes are missing, 4002 if it has not the sum that was
// announced, now or at the beginning. An upload that failed so stays, and can be aborted.
func (s *Store) FinishUpload(ctx context.Context, who *protocol.Principal, id string, files Files, sum *Sum) (File, error) {
	r, err := s.uploadWith(ctx, who, id, 0)
	if err == nil {
		r, err = s.uploadWith(ctx, who, id, r.Upload.Size)
	}
	if err != nil {
		return File{}, err
	}
	u := r.Upload
	if received := r.current().Size; received < u.Size {
		return File{}, protocol.Errorf(protocol.InvalidState, "%d of %d bytes are missing", u.Size-received, u.Size).With("offset", received).With("upload_id", id)
	}
	o := PutOptions{IfVersion: u.IfVersion, Size: u.Size, SHA256: u.SHA256, ContentType: u.ContentType, Mtime: u.Mtime}
	if sum != nil {
		if o.SHA256 != nil && *o.SHA256 != *sum {
			return File{}, BadContent(u.Path, "has another checksum than was announced at the beginning")
		}
		o.SHA256 = sum
	}
	f, err := s.unstage(ctx, r, files, o)
	if err != nil {
		return File{}, err
	}
	return f, s.discard(ctx, r)
}

// unstage gives a file the content of an upload: by reference if the file is of this
// store.
func (s *Store) unstage(ctx context.Context, r *Record, files Files, o PutOptions) (File, error) {
	from := Source{Path: r.Path, Version: r.current().Number}
	own, ok := files.(*Space)
	if !ok || own.store != s {
		content, f, err := s.Space(staging).Open(ctx, r.Group, from.Path, from.Version)
		if err != nil {
			return File{}, err
		}
		defer content.Close()
		if err := announced(f, o); err != nil {
			return File{}, err
		}
		return files.Put(ctx, r.Upload.Group, r.Upload.Path, io.Reader(content), o)
	}
	if err := own.checkPut(ctx, r.Upload.Group, r.Upload.Path, o, 0); err != nil {
		return File{}, err
	}
	c, unpin, err := s.Space(staging).hold(ctx, r.Group, from, o)
	if err != nil {
		return File{}, err
	}
	defer unpin()
	w := &writing{Space: own, group: r.Upload.Group, path: r.Upload.Path, options: o, content: c}
	return w.run(ctx)
}

// AbortUpload gives up an upload of a principal.
func (s *Store) AbortUpload(ctx context.Context, who *protocol.Principal, id string) error {
	r, err := s.uploadWith(ctx, who, id, 0)
	if err != nil {
		return err
	}
	return s.discard(ctx, r)
}

// discard removes the record of an upload; its blobs are collected. A missing one is no error.
func (s *Store) discard(ctx context.Context, r *Record) error {
	if err := s.opts.Records.Delete(ctx, r.key(), 0); err != nil && protocol.CodeOf(err) != protocol.NotFound {
		return err
	}
	return nil
}

// giveUp removes uploads to which nothing was added for a day.
func (s *Store) giveUp(ctx context.Context) (n int) {
	s.uploads.mu.Lock()
	var stale []*Record
	for _, r := range s.uploads.byID {
		if r.state().Expires.Before(s.opts.Now()) {
			stale = append(stale, r)
		}
	}
	s.uploads.mu.Unlock()
	for _, r := range stale {
		now, revision, ok := s.opts.Records.Get(r.key())
		if !ok || now.current().Number != r.current().Number {
			continue // a part was added meanwhile
		}
		if err := s.opts.Records.Delete(ctx, r.key(), revision); err == nil {
			n++
		}
	}
	return n
}
