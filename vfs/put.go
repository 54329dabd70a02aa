package vfs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// smallContent is up to where contents are held in memory and share blobs.
const smallContent = 64 << 10

// A received content was read to its end and checked, and waits to become a
// version.
type received struct {
	size  int64
	sum   Sum
	data  []byte // of a small one
	blob  Blob   // of any other, written but not committed
	where *place // once it is durable
}

// A place is where a content is in the blobs.
type place struct {
	blob   string
	offset int64
}

func (c *received) abort() {
	if c.blob != nil {
		c.blob.Abort()
	}
}

// Put implements [Files].
func (s *Space) Put(ctx context.Context, group, path string, r io.Reader, o PutOptions) (File, error) {
	if err := s.checkPut(ctx, group, path, o); err != nil {
		return File{}, err
	}
	c, err := s.store.receive(ctx, path, r, o)
	if err != nil {
		return File{}, err
	}
	defer c.abort()
	w := &writing{Space: s, group: group, path: path, options: o, content: c}
	return w.run(ctx)
}

// checkPut refuses what can be refused before the content is read.
func (s *Space) checkPut(ctx context.Context, group, path string, o PutOptions) error {
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
	if room := s.store.opts.Blobs.Room(); room >= 0 && o.Size > room {
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

// receive reads a content. A large one goes straight to the blobs, a piece at
// a time.
func (s *Store) receive(ctx context.Context, path string, r io.Reader, o PutOptions) (*received, error) {
	in := &source{ctx: ctx, r: r, left: min(s.opts.MaxFile, s.opts.Quota) + 1}
	if o.Size >= 0 {
		in.left = min(in.left, o.Size+1)
	}
	c := &received{}
	hasher := sha256.New()
	head := make([]byte, smallContent+1)
	if o.Size >= 0 && o.Size < smallContent {
		head = head[:o.Size+1]
	}
	n, err := io.ReadFull(in, head)
	hasher.Write(head[:n])
	c.size = int64(n)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		c.data = head[:n:n]
	case err != nil:
		return nil, brokenOff(err)
	case o.Size >= 0 && c.size > o.Size:
		return nil, BadContent(path, "is longer than announced")
	default:
		if err := s.stream(ctx, c, io.MultiReader(bytes.NewReader(head), in), hasher, int64(n)); err != nil {
			return nil, err
		}
	}
	hasher.Sum(c.sum[:0])
	if err := s.checkReceived(path, c, o); err != nil {
		c.abort()
		return nil, err
	}
	return c, nil
}

// stream writes a content to a blob; its first bytes are in the hash already.
func (s *Store) stream(ctx context.Context, c *received, r io.Reader, hasher io.Writer, hashed int64) (err error) {
	if c.blob, err = s.opts.Blobs.New(ctx); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			c.blob.Abort()
		}
	}()
	c.size = 0
	buf := make([]byte, 1<<20)
	for {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			if fresh := c.size + int64(n) - hashed; fresh > 0 {
				_, _ = hasher.Write(buf[int64(n)-min(fresh, int64(n)) : n]) // never fails
			}
			c.size += int64(n)
			if _, err := c.blob.Write(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return brokenOff(err)
		}
	}
}

func (s *Store) checkReceived(path string, c *received, o PutOptions) error {
	switch {
	case o.Size >= 0 && c.size > o.Size:
		return BadContent(path, "is longer than announced")
	case o.Size >= 0 && c.size < o.Size:
		return BadContent(path, "is shorter than announced")
	case c.size > s.opts.MaxFile:
		return s.tooLarge()
	case c.size > s.opts.Quota:
		return NoRoom("the file is larger than the group's quota")
	case o.SHA256 != nil && *o.SHA256 != c.sum:
		return BadContent(path, "has another checksum than announced")
	}
	return nil
}

// A source is a reader that ends with its context, and after a number of
// bytes. It tells an end in the middle from an end.
type source struct {
	ctx  context.Context
	r    io.Reader
	left int64
}

// Read implements [io.Reader].
func (s *source) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, io.EOF
	}
	if err := ended(s.ctx); err != nil {
		return 0, err
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = brokenOff(err) // what io.ReadFull would take for an end
	}
	return n, err
}

// brokenOff is the error for a content that does not come to its end.
func brokenOff(err error) error {
	if known := new(protocol.Error); errors.As(err, &known) {
		return err
	}
	return protocol.Wrap(protocol.SyncFailed, err, "the content broke off")
}

// A writing makes a received content a file's new version.
type writing struct {
	*Space
	group, path string
	options     PutOptions
	content     *received

	// What is reserved in the index while the content and the record are
	// written.
	shelf    *shelf
	number   uint64
	reserved int64
	pinned   string

	alone    bool    // keep no version but the new one
	before   *Record // nil for a new file
	revision uint64
	result   *Record
}

// run tries until nobody else changes the same file meanwhile.
func (w *writing) run(ctx context.Context) (File, error) {
	defer w.unpin()
	w.probe(ctx, make(sizes))
	made := false // room, by giving up old versions
	for range records.Attempts {
		done, err := w.reserve()
		if protocol.CodeOf(err) == protocol.NoSpace && !made {
			made = true
			// If that is not enough, what is replaced gives way as well.
			w.alone = !w.store.makeRoom(ctx, w.space, w.group, w.content.size)
			continue
		}
		if done != nil || err != nil {
			return deref(done), err
		}
		err = w.write(ctx)
		w.release()
		if err == nil {
			w.store.metrics.written(w.content.size)
			return w.result.file(w.result.current()), nil
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
		current = *w.options.IfVersion // who knows of the deletion may replace it
	}
	if o := w.options.IfVersion; o != nil && *o != current && !(*o == 0 && !live) {
		return nil, VersionConflict(w.path, *o, current)
	}
	if live {
		if v := r.current(); v.SHA256 == w.content.sum && v.Size == w.content.size && v.Type == w.options.ContentType && !x.isBroken(v.Blob) {
			f := r.file(v)
			return &f, nil
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	shelf := x.shelf(w.space, w.group)
	if twin, ok := shelf.names.twin(w.path); ok {
		x.tidy(w.space, w.group, shelf)
		return nil, errTwin(w.path, twin)
	}
	grows := w.content.size
	if w.alone {
		grows -= r.bytes()
	}
	if shelf.used+shelf.pending+grows > s.opts.Quota {
		return nil, NoRoom("the group's quota is used up")
	}
	if r == nil && len(shelf.files)+len(shelf.writers) >= s.opts.Files {
		return nil, NoRoom("the group has too many files")
	}
	w.shelf, w.reserved = shelf, max(0, grows)
	shelf.pending += w.reserved
	shelf.names.add(w.path)
	shelf.writers[w.path]++
	w.number = x.number(s.opts.Now())
	shelf.inFlight[w.number] = struct{}{}
	w.place()
	return nil, nil
}

// place finds a content that is there already, or the blob it will get. The
// index is locked.
func (w *writing) place() {
	x := w.store.index
	if w.pinned != "" {
		return // it was tried before
	}
	if w.content.where == nil {
		if c := x.contents[w.content.sum]; c != nil && !x.broken(c.blob) {
			w.content.where = &place{c.blob, c.offset}
		}
	}
	w.pinned = hex.EncodeToString(w.content.sum[:])
	if w.content.where != nil {
		w.pinned = w.content.where.blob
	}
	x.pin(w.pinned)
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
		where, err := w.store.packer.put(ctx, c.data)
		if err != nil {
			return err
		}
		w.settle(where)
		return nil
	}
	key, err := c.blob.Commit(c.sum)
	if err != nil {
		return err
	}
	w.store.index.pinTimes(key, 1)
	w.settle(place{blob: key})
	return nil
}

// settle notes where the content is, in a blob that is pinned for it.
func (w *writing) settle(where place) {
	w.unpin()
	w.content.where = &where
	w.pinned = where.blob
}

// unpin lets go of the blob.
func (w *writing) unpin() {
	if w.pinned != "" {
		w.store.index.pinTimes(w.pinned, -1)
		w.pinned = ""
	}
}

// record is the file's record with the new version.
func (w *writing) record() *Record {
	v := Version{
		Number: w.number, Size: w.content.size, SHA256: w.content.sum,
		Modified: w.store.opts.Now().UnixMilli(), Type: w.options.ContentType, Mtime: w.options.Mtime,
	}
	if w.content.size > 0 {
		v.Blob, v.Offset = w.content.where.blob, w.content.where.offset
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

// release gives back what was reserved.
func (w *writing) release() {
	x := w.store.index
	x.mu.Lock()
	defer x.mu.Unlock()
	w.shelf.pending -= w.reserved
	delete(w.shelf.inFlight, w.number)
	if w.shelf.writers[w.path]--; w.shelf.writers[w.path] == 0 {
		delete(w.shelf.writers, w.path)
		w.shelf.forget(w.path)
	}
	x.tidy(w.space, w.group, w.shelf)
	x.settled.Broadcast()
}
