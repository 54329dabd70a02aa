package s3

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Bounds of uploads in parts. Their parts are files in the spool, which a restart
// of the bridge empties.
const (
	maxUploads        = 1024
	maxUploadsOfSpace = maxUploads / 2 // so that no space has all
	maxUploadsOfParty = 64
	maxParts          = 10_000
	leastCharge       = 64 << 10       // bytes that a part counts for at least: it is a file, and remembered
	uploadLife        = 24 * time.Hour // since its last part
	sweepEvery        = 10 * time.Minute
)

// An upload is one in parts, of the principal that began it.
type upload struct {
	id          string
	space       protocol.SpaceID
	owner       protocol.Party
	bucket      string
	path        string
	contentType string
	mtime       int64
	dir         string
	begun       time.Time

	mu       sync.Mutex // guards the fields below; held while it is completed
	parts    map[int]part
	touched  time.Time
	over     bool
	attempts int // numbers the files of parts
}

// A part is a part of an upload that has come whole.
type part struct {
	file string
	size int64
	tag  string // SHA-256, hexadecimal
	at   time.Time
}

// uploads are those under way.
type uploads struct {
	door Options

	mu      sync.Mutex
	byID    map[string]*upload
	parties map[protocol.Party]*spooled
	spaces  map[protocol.SpaceID]int // uploads
}

// spooled is a party's use of the spool.
type spooled struct {
	uploads int
	bytes   int64
}

func newUploads(o Options) *uploads {
	return &uploads{door: o, byID: make(map[string]*upload), parties: make(map[protocol.Party]*spooled), spaces: make(map[protocol.SpaceID]int)}
}

// run gives up abandoned uploads, until ctx ends.
func (s *uploads) run(ctx context.Context) error {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			s.sweep()
		}
	}
}

// sweep gives up uploads that have had no part for long.
func (s *uploads) sweep() {
	for _, u := range s.all() {
		if !u.mu.TryLock() {
			continue // it is being gone on with
		}
		if !u.over && s.door.Now().Sub(u.touched) > uploadLife {
			s.end(u)
		}
		u.mu.Unlock()
	}
}

func (s *uploads) all() []*upload {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*upload, 0, len(s.byID))
	for _, u := range s.byID {
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b *upload) int { return a.begun.Compare(b.begun) })
	return list
}

// begin makes an upload.
func (s *uploads) begin(who *protocol.Principal, u *upload) error {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	u.id, u.owner, u.space = hex.EncodeToString(id[:]), who.Party(), who.Home()
	u.parts, u.begun = make(map[int]part), s.door.Now()
	u.touched, u.dir = u.begun, filepath.Join(s.door.Spool, "s3-"+u.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.parties[u.owner]
	if len(s.byID) >= maxUploads || s.spaces[u.space] >= maxUploadsOfSpace || mine != nil && mine.uploads >= maxUploadsOfParty {
		return protocol.Errorf(protocol.LimitReached, "too many uploads in parts are under way: complete or abort some")
	}
	if err := os.Mkdir(u.dir, 0o700); err != nil {
		return err
	}
	if mine == nil {
		mine = new(spooled)
		s.parties[u.owner] = mine
	}
	mine.uploads++
	s.spaces[u.space]++
	s.byID[u.id] = u
	return nil
}

// find is an upload of the principal to an object.
func (s *uploads) find(who *protocol.Principal, id, bucket, path string) (*upload, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.byID[id]
	if u == nil || u.space != who.Home() || !u.owner.Is(who) || u.bucket != bucket || u.path != path {
		return nil, errNoUpload
	}
	return u, nil
}

var errNoUpload = refuse("NoSuchUpload", "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed.")

// charged is the number of bytes that a part counts for.
func charged(size int64) int64 { return max(size, leastCharge) }

// charge counts bytes that a party is about to write to the spool, or has given
// back. A party may have twice the largest file there.
func (s *uploads) charge(owner protocol.Party, bytes int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.parties[owner]
	if mine == nil {
		mine = new(spooled)
		s.parties[owner] = mine
	}
	if bytes > 0 && mine.bytes+bytes > 2*s.door.Files.MaxFile {
		return protocol.Errorf(protocol.NoSpace, "the parts of your uploads take too much room: complete or abort some")
	}
	mine.bytes += bytes
	if mine.uploads == 0 && mine.bytes == 0 {
		delete(s.parties, owner)
	}
	return nil
}

// store writes a part. One of the same number is replaced when the new one has
// come whole.
func (s *uploads) store(u *upload, number int, content io.Reader, size int64) (part, error) {
	if room := s.door.Room(); room >= 0 && size > room {
		return part{}, protocol.Errorf(protocol.NoSpace, "the disk is full")
	}
	if err := s.charge(u.owner, charged(size)); err != nil {
		return part{}, err
	}
	p, err := u.write(number, content, size)
	if err != nil {
		_ = s.charge(u.owner, -charged(size))
		return part{}, err
	}
	u.mu.Lock()
	old, replaces := u.parts[number]
	over := u.over
	if !over {
		p.at = s.door.Now()
		u.parts[number], u.touched = p, p.at
	}
	u.mu.Unlock()
	if over {
		_ = s.charge(u.owner, -charged(size))
		_ = os.Remove(p.file)
		return part{}, errNoUpload
	}
	if replaces {
		_ = os.Remove(old.file)
		_ = s.charge(u.owner, -charged(old.size))
	}
	return p, nil
}

// write writes a part of a known size into a file of its own.
func (u *upload) write(number int, content io.Reader, size int64) (p part, err error) {
	u.mu.Lock()
	u.attempts++
	name := filepath.Join(u.dir, strconv.Itoa(number)+"-"+strconv.Itoa(u.attempts))
	u.mu.Unlock()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if os.IsNotExist(err) {
		return p, errNoUpload // it has been aborted
	}
	if err != nil {
		return p, err
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, hash), io.LimitReader(content, size+1)) // one more than it should have, to see its end
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil && n != size {
		err = refuse("IncompleteBody", "You did not provide the number of bytes specified by the Content-Length HTTP header")
	}
	if err != nil {
		_ = os.Remove(name)
		return p, err
	}
	return part{file: name, size: size, tag: hex.EncodeToString(hash.Sum(nil))}, nil
}

// end forgets an upload and its parts. The upload is locked.
func (s *uploads) end(u *upload) {
	if u.over {
		return
	}
	u.over = true
	var bytes int64
	for _, p := range u.parts {
		bytes += charged(p.size)
	}
	s.mu.Lock()
	if s.byID[u.id] == u {
		delete(s.byID, u.id)
		s.parties[u.owner].uploads--
		if s.spaces[u.space]--; s.spaces[u.space] == 0 {
			delete(s.spaces, u.space)
		}
	}
	s.mu.Unlock()
	_ = s.charge(u.owner, -bytes)
	_ = os.RemoveAll(u.dir)
}

// contents reads parts one after the other, with one file open at a time.
type contents struct {
	files []string
	open  *os.File
}

// Read implements [io.Reader].
func (c *contents) Read(p []byte) (int, error) {
	for {
		if c.open == nil {
			if len(c.files) == 0 {
				return 0, io.EOF
			}
			f, err := os.Open(c.files[0])
			if err != nil {
				return 0, err
			}
			c.open, c.files = f, c.files[1:]
		}
		n, err := c.open.Read(p)
		if err != io.EOF {
			return n, err
		}
		_ = c.open.Close()
		c.open = nil
		if n > 0 {
			return n, nil
		}
	}
}

// Close implements [io.Closer].
func (c *contents) Close() error {
	if c.open == nil {
		return nil
	}
	return c.open.Close()
}
