// Package filestest has files behind a door that is spoken over HTTP, for the tests
// of such doors.
package filestest

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/doors/files"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/vfstest"
)

// A House has files in memory. Make it with [New].
type House struct {
	Store *vfs.Store
	// Authorize refuses actions; nil permits everything. Set it before the first
	// request.
	Authorize func(who *protocol.Principal, action, group string) error

	options files.Options
	mu      sync.Mutex
	deeds   []string
	log     strings.Builder
}

// New makes a house with a quota in bytes for groups. A file may have half of that.
func New(quota int64) *House {
	h := &House{Store: vfs.NewStore(vfs.StoreOptions{Records: recordstest.New[vfs.Record](), Blobs: vfstest.NewBlobs(), Quota: quota})}
	h.options = files.Options{
		Service: vfs.New(vfs.Options{Store: h.Store, Groups: recordstest.New[vfs.Group](), Remotes: recordstest.New[vfs.Remote]()}),
		Sync:    http.NotFoundHandler(), MaxFile: quota / 2, Log: slog.New(slog.NewTextHandler(locked{h}, nil)),
		Authorize: func(_ context.Context, who *protocol.Principal, action string, r commands.Resource) error {
			if h.Authorize == nil {
				return nil
			}
			return h.Authorize(who, action, r.ID)
		},
		Record: func(d files.Deed) {
			h.mu.Lock()
			defer h.mu.Unlock()
			state := " done"
			if d.Err != nil {
				state = " refused"
			}
			h.deeds = append(h.deeds, d.Name+" "+d.Group+"/"+d.Path+state)
		},
	}
	return h
}

// Handler is the entrance to the files, for principals by authenticate.
func (h *House) Handler(t testing.TB, authenticate func(*http.Request) (*protocol.Principal, error)) *files.Handler {
	t.Helper()
	o := h.options
	o.Authenticate = authenticate
	handler, err := files.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// Deeds are the recorded deeds, in order: NAME GROUP/PATH done, or refused.
func (h *House) Deeds() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.deeds, ", ")
}

// Logged is the log.
func (h *House) Logged() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.String()
}

// A locked is a house's log.
type locked struct{ *House }

// Write implements [io.Writer].
func (l locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(p)
}

// Party is the principal of a name: of the space before a separator in it, if it has
// one.
func Party(name, separator string) *protocol.Principal {
	space, id, ok := strings.Cut(name, separator)
	if !ok {
		space, id = string(protocol.DefaultSpace), name
	}
	return &protocol.Principal{Kind: protocol.KindAgent, ID: id, Space: protocol.SpaceID(space)}
}

// Nobody authenticates no request.
func Nobody(*http.Request) (*protocol.Principal, error) {
	return nil, protocol.Errorf(protocol.NotAuthenticated, "a credential is needed")
}

// Serve serves a door until the test ends.
func Serve(t testing.TB, door http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(door)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

// An Answer is the response to a request.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Send sends a request, and follows no redirection.
func Send(t testing.TB, r *http.Request) Answer {
	t.Helper()
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return Answer{response.StatusCode, response.Header, string(text)}
}

// Is fails the test unless the answer has a status, and text in its body.
func (a Answer) Is(t testing.TB, status int, has string, request ...any) Answer {
	t.Helper()
	if a.Status != status || !strings.Contains(a.Body, has) {
		t.Errorf("%q: %d %s, want %d with %q", request, a.Status, a.Body, status, has)
	}
	return a
}
