package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// A shaky VFS breaks off what takes longer than a number of bytes, as often as is wanted,
// and loses answers.
type shaky struct {
	http.Handler
	breaks, lose atomic.Int64
	after        int64         // bytes of a part that arrive before it breaks
	parts, taken atomic.Int64  // and bytes of them
	reached      chan struct{} // closed when some of them have been taken
	once         sync.Once
}

// some is the number of bytes after which reached is closed.
const some = 4 << 20

func (s *shaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPatch {
		s.parts.Add(1)
		body := &counted{ReadCloser: r.Body, of: s, left: 1 << 62}
		if s.breaks.Add(-1) >= 0 {
			body.left = s.after
		}
		r.Body = body
	}
	if strings.HasSuffix(r.URL.Path, "/finish") && s.lose.Add(-1) >= 0 {
		s.Handler.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	s.Handler.ServeHTTP(w, r)
	if b, ok := r.Body.(*counted); ok && b.left <= 0 {
		panic(http.ErrAbortHandler)
	}
}

type counted struct {
	io.ReadCloser
	of   *shaky
	left int64
}

func (c *counted) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	if c.of.taken.Add(int64(n)) >= some {
		c.of.once.Do(func() { close(c.of.reached) })
	}
	return n, err
}

// shake puts a shaky VFS before a client.
func shake(t *testing.T, inside string) (*shaky, func() *Client) {
	t.Helper()
	s := &shaky{Handler: serve(t).Config.Handler, after: 3<<20 + 5, reached: make(chan struct{})}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, func() *Client {
		c := dial(t, Options{URL: server.URL + "/vfs", Credential: key, Inside: inside})
		c.pause = time.Millisecond
		return c
	}
}

// large is a content that goes in parts, and what is said of it.
func large(seed byte) ([]byte, vfs.PutOptions) {
	content := make([]byte, 10<<20)
	for i := range content {
		content[i] = byte(i>>8) ^ byte(i*7) ^ seed
	}
	sum := vfs.Sum(sha256.Sum256(content))
	return content, vfs.PutOptions{Size: int64(len(content)), SHA256: &sum}
}

func TestALargeFileGoesOnWhereItsConnectionBroke(t *testing.T) {
	for _, inside := range []string{"", "site-1"} {
		s, client := shake(t, inside)
		s.breaks.Store(3)
		s.lose.Store(1)
		content, o := large(1)
		f, err := client().PutFile(t.Context(), "upstairs", "film.bin", bytes.NewReader(content), o)
		if err != nil || f.SHA256 != *o.SHA256 || f.Path != "film.bin" {
			t.Fatalf("%+v %v", f, err)
		}
		if parts, taken := s.parts.Load(), s.taken.Load(); parts != 4 || taken > o.Size+100 { // the bytes beyond whole steps
			t.Errorf("%d bytes in %d parts", taken, parts)
		}
	}
}

func TestALargeFileGoesOnWhereAnotherProcessWas(t *testing.T) {
	s, client := shake(t, "")
	content, o := large(2)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := client().PutFile(ctx, "upstairs", "film.bin", &dying{bytes.NewReader(content), some + 64<<10, s.reached, cancel}, o); err == nil {
		t.Fatal("it has arrived")
	}
	other, changed := large(3)
	s.taken.Store(0)
	if f, err := client().PutFile(t.Context(), "upstairs", "film.bin", bytes.NewReader(other), changed); err != nil || f.SHA256 != *changed.SHA256 || s.taken.Load() < o.Size {
		t.Errorf("another content goes on with the parts of the first: %d bytes, %v", s.taken.Load(), err)
	}
	s.taken.Store(0)
	f, err := client().PutFile(t.Context(), "upstairs", "film.bin", bytes.NewReader(content), o)
	if err != nil || f.SHA256 != *o.SHA256 {
		t.Fatalf("%+v %v", f, err)
	}
	if taken := s.taken.Load(); taken > o.Size-some+vfs.UploadStep {
		t.Errorf("%d bytes were sent again", taken)
	}
}

// A dying reader belongs to a process that is stopped in the middle.
type dying struct {
	*bytes.Reader
	left    int
	reached <-chan struct{}
	cancel  func()
}

func (d *dying) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p[:min(len(p), max(d.left, 1))])
	if d.left -= n; d.left <= 0 {
		<-d.reached
		d.cancel()
	}
	return n, err
}

func TestAConnectionThatBreaksForEverIsGivenUp(t *testing.T) {
	s, client := shake(t, "")
	s.breaks.Store(1 << 40)
	s.after = 5 // less than a step: nothing arrives
	content, o := large(4)
	if _, err := client().PutFile(t.Context(), "upstairs", "film.bin", bytes.NewReader(content), o); protocol.CodeOf(err) != protocol.VFSUnavailable {
		t.Errorf("%v", err)
	}
	if parts := s.parts.Load(); parts != maxBreaks+1 {
		t.Errorf("%d attempts", parts)
	}
	wrong := uint64(7)
	o.IfVersion = &wrong
	s.breaks.Store(0)
	if _, err := client().PutFile(t.Context(), "upstairs", "film.bin", bytes.NewReader(content), o); protocol.CodeOf(err) != protocol.RevisionConflict {
		t.Errorf("a version that there is not: %v", err)
	}
}

// TestAnUploadGoesOnWithItsCondition and not with that of another one.
func TestAnUploadGoesOnWithItsCondition(t *testing.T) {
	for _, alone := range []bool{false, true} {
		s, dial := shake(t, "")
		client := func() *Client {
			c := dial()
			c.Alone = alone
			return c
		}
		content, o := large(5)
		absent := uint64(0)
		o.IfVersion = &absent
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := client().PutFile(ctx, "upstairs", "film.bin", &dying{bytes.NewReader(content), some + 64<<10, s.reached, cancel}, o); err == nil {
			t.Fatal("it has arrived")
		}
		s.taken.Store(0)
		f, err := client().PutFile(t.Context(), "upstairs", "film.bin", bytes.NewReader(content), o)
		if err != nil || f.SHA256 != *o.SHA256 {
			t.Fatalf("%+v %v", f, err)
		}
		if taken := s.taken.Load(); taken > o.Size-some+vfs.UploadStep {
			t.Errorf("%d bytes were sent again", taken)
		}

		// One of another content stays, unless nobody else uploads.
		var begun upload
		other, changed := large(6)
		if u, err := client().begun(t.Context(), "upstairs", "other.bin", changed); err != nil {
			t.Fatal(err)
		} else {
			begun = *u
		}
		changed.IfVersion = &f.Version
		if f, err = client().PutFile(t.Context(), "upstairs", "film.bin", bytes.NewReader(other), changed); err != nil || f.SHA256 != *changed.SHA256 {
			t.Fatalf("%+v %v", f, err)
		}
		err = client().about(t.Context(), http.MethodGet, "uploads/"+begun.ID, nil, &begun)
		if (protocol.CodeOf(err) == protocol.FileNotFound) != alone {
			t.Errorf("alone %t: the other upload is there: %v", alone, err)
		}
	}
}
