package vfs

import (
	"context"
	"fmt"
	"io"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// Put implements [Files].
func (s *Space) Put(ctx context.Context, group, path string, r io.Reader, o PutOptions) (File, error) {
	if err := s.checkPut(ctx, group, path, o, o.Size); err != nil {
		return File{}, err
	}
	c, release, err := s.receive(ctx, group, path, r, o)
	if err != nil {
		return File{}, err
	}
	defer release()
	defer c.abort()
	w := &writing{Space: s, group: group, path: path, options: o, content: c}
	return w.run(ctx)
}

// checkPut refuses a write for reasons known before its content is read, of which fresh
// bytes are to be written.
func (s *Space) checkPut(ctx context.Context, group, path string, o PutOptions, fresh int64) error {
	if err := checkNames(ctx, group, path); err != nil {
		return err
	}
	if !validType(o.ContentType) {
		return protocol.InvalidParam("content_type", "must be visible ASCII, at most 255 bytes")
	}
	if o.Mtime < 0 || o.Mtime >= maxMtime {
		return protocol.InvalidParam("mtime", "must be Unix milliseconds")
	}
	if o.Size > s.store.opts.MaxFile {
		return s.store.tooLarge()
	}
	if o.Size > s.store.opts.Quota {
		return NoRoom("the file is larger than the group's quota")
	}
	if err := s.store.mayHold(s.space, group, o.Size); err != nil {
		return err
	}
	if room := s.store.opts.Blobs.Room(); room >= 0 && fresh > room {
		return NoRoom("the disk is full")
	}
	return nil
}

func validType(t string) bool {
	if len(t) > MaxContentType {
		return false
	}
	for _, c := range []byte(t) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

func (s *Store) tooLarge() error {
	return protocol.Errorf(protocol.PayloadTooLarge, "a file may have %d bytes", s.opts.MaxFile).With("limit", s.opts.MaxFile)
}

// A writing makes a received content a file's new version.
type writing struct {
	*Space
	group, path string
	options     PutOptions
	content     *received

	// The reservation in the index while the content and the record are written.
	held     *groupIndex
	number   uint64
	reserved int64
	pinned   blobPosition

	alone    bool    // keep no version but the new one
	before   *Record // nil for a new file
	revision uint64
	result   *Record
}

// run tries again as long as other writers change the same file meanwhile.
func (w *writing) run(ctx context.Context) (File, error) {
	defer w.unpin()
	w.probe(ctx, make(sizes))
	made := false // room, by giving up old versions
	for range records.Attempts {
		done, err := w.reserve()
		if protocol.CodeOf(err) == protocol.NoSpace && !made {
			made = true
			// If that is not enough, the replaced version gives way as well.
			w.alone = !w.store.makeRoom(ctx, w.space, w.group, w.content.size)
			continue
		}
		if done != nil || err != nil {
			if protocol.CodeOf(err) == protocol.NoSpace {
				w.store.refused(w.space, w.group)
			}
			return deref(done), err
		}
		err = w.write(ctx)
		w.release()
		if err == nil {
			w.store.metrics.written(w.content)
			return w.store.tell(w.result), nil
		}
		if !records.Raced(err) {
			return File{}, err
		}
	}
	return File{}, tooContended(w.path)
}

func deref(f *File) File {
	if f == nil {
		return File{}
	}
	return *f
}

// reserve decides whether the content may become the file's next version, and
// keeps the room, the name and the blob it will need. The result is the file
// as it is if there is nothing to do.
func (w *writing) reserve() (*File, error) {
	s, x := w.store, w.store.index
	r, revision, _ := s.opts.Records.Get(recordKey(w.space, w.group, w.path))
	w.before, w.revision = r, revision
	var current uint64
	live := r != nil && r.live()
	if live {
		current = r.current().Number
	} else if r != nil && w.options.IfVersion != nil && *w.options.IfVersion == r.current().Number {
		current = *w.options.IfVersion // a writer that knows of the deletion may replace it
	}
	if o := w.options.IfVersion; o != nil && *o != current && !(*o == 0 && !live) {
		return nil, VersionConflict(w.path, *o, current)
	}
	if live {
		if v := r.current(); v.SHA256 == w.content.sum && v.Size == w.content.size && v.Type == w.options.ContentType && !x.isBroken(v.position()) {
			f := r.file(v)
			return &f, nil
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if w.content.where == nil && x.broken(w.content.shared()) {
		return nil, baseDamaged(w.path)
	}
	g := x.group(w.space, w.group)
	if twin, ok := g.names.collision(w.path); ok {
		x.prune(w.space, w.group, g)
		return nil, errCollision(w.path, twin)
	}
	grows := w.content.size
	if w.alone {
		grows -= r.bytes()
	}
	if g.used+g.pending+grows > s.opts.Quota {
		return nil, NoRoom("the group's quota is used up")
	}
	if !g.shared.has(grows) {
		return nil, NoRoom(fmt.Sprintf("the room for files of %s is used up, %d bytes", g.shared.name, g.shared.bytes))
	}
	if r == nil && len(g.files)+len(g.writers) >= s.opts.Files {
		return nil, NoRoom("the group has too many files")
	}
	w.held, w.reserved = g, max(0, grows)
	g.pending += w.reserved
	g.shared.reserves(w.reserved)
	g.names.add(w.path)
	g.writers[w.path]++
	w.number = x.number(s.opts.Now())
	g.inFlight[w.number] = struct{}{}
	w.place()
	return nil, nil
}

// place finds a content that is there already, or the blob it will get. The
// index is locked.
func (w *writing) place() {
	x := w.store.index
	if w.pinned.blob != "" {
		return // it was tried before
	}
	if w.content.where == nil {
		if c := x.contents[w.content.sum]; c != nil && !x.broken(c.blobPosition) {
			where := c.blobPosition
			w.content.where = &where
		}
	}
	switch {
	case w.content.where != nil:
		w.pinned = *w.content.where
	case w.content.blob != nil:
		w.pinned = blobPosition{blob: w.content.name.String()}
	}
	for blob := range w.pinned.blobs() {
		x.pin(blob)
	}
}

// write makes the content durable, and then the record.
func (w *writing) write(ctx context.Context) error {
	c := w.content
	if c.where == nil && c.size > 0 {
		if err := w.commit(ctx); err != nil {
			return err
		}
	}
	w.result = w.record()
	var err error
	if w.revision == 0 {
		_, err = w.store.opts.Records.Create(ctx, w.result.key(), w.result)
	} else {
		_, err = w.store.opts.Records.Update(ctx, w.result.key(), w.result, w.revision)
	}
	return err
}

// commit makes the content durable in a blob of its own, or together with
// other small ones, and keeps that pinned.
func (w *writing) commit(ctx context.Context) error {
	c := w.content
	if c.blob == nil {
		where, err := w.store.batches.put(ctx, c.data)
		if err != nil {
			return err
		}
		w.settle(where)
		return nil
	}
	key, err := c.blob.Commit(c.name)
	if err != nil {
		return err
	}
	where := blobPosition{blob: key, list: c.list}
	w.store.index.pinAll(where, 1)
	w.settle(where)
	return nil
}

// settle notes where the content is, in blobs that are pinned for it.
func (w *writing) settle(where blobPosition) {
	w.unpin()
	w.content.where = &where
	w.pinned = where
}

// unpin lets go of the blobs.
func (w *writing) unpin() {
	w.store.index.pinAll(w.pinned, -1)
	w.pinned = blobPosition{}
}

// record is the file's record with the new version.
func (w *writing) record() *Record {
	v := Version{
		Number: w.number, Size: w.content.size, SHA256: w.content.sum,
		Modified: w.store.opts.Now().UnixMilli(), Type: w.options.ContentType, Mtime: w.options.Mtime,
	}
	if w.content.size > 0 {
		v.Blob, v.Offset, v.List = w.content.where.blob, w.content.where.offset, w.content.where.list
	}
	if w.before != nil {
		keep := w.store.opts.Versions
		if w.alone {
			keep = 1
		}
		return w.before.with(v, keep)
	}
	return &Record{
		Space: w.space, Group: w.group, Path: w.path, ID: protocol.NewID(),
		First: w.number, Versions: []Version{v},
	}
}

// release gives back the reservation.
func (w *writing) release() {
	x := w.store.index
	x.mu.Lock()
	defer x.mu.Unlock()
	w.held.pending -= w.reserved
	w.held.shared.reserves(-w.reserved)
	delete(w.held.inFlight, w.number)
	if w.held.writers[w.path]--; w.held.writers[w.path] == 0 {
		delete(w.held.writers, w.path)
		w.held.forget(w.path)
	}
	x.prune(w.space, w.group, w.held)
	x.settled.Broadcast()
}
