package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	filesdoor "github.com/aibridge/aibridge/doors/files"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/vfstest"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

var alice = &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: protocol.DefaultSpace}

const key = "a-key"

// serve serves a VFS over HTTP, as a bridge does.
func serve(t *testing.T) *httptest.Server {
	t.Helper()
	records := recordstest.New[vfs.Record]()
	store := vfs.NewStore(vfs.StoreOptions{Records: records, Blobs: vfstest.NewBlobs(), Atomic: vfstest.Atomic(records)})
	service := vfs.New(vfs.Options{Store: store, Groups: recordstest.New[vfs.Group](), Remotes: recordstest.New[vfs.Remote]()})
	set, err := commands.NewSet(service.Commands()...)
	if err != nil {
		t.Fatal(err)
	}
	router := commands.NewRouter(set, commands.RouterOptions{Authorizer: commands.AllowAll{}})
	authenticate := func(r *http.Request) (*protocol.Principal, error) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			return nil, protocol.Errorf(protocol.CredentialInvalid, "no such key")
		}
		return alice, nil
	}
	handler, err := filesdoor.New(filesdoor.Options{
		Service: service, Authenticate: authenticate,
		Authorize: func(context.Context, *protocol.Principal, string, commands.Resource) error { return nil },
		Sync: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			response := router.Handle(r.Context(), commands.Inbound{Principal: alice, Body: body, Door: "http"})
			_, _ = w.Write(response.Append(nil))
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.Close()
		_ = router.Close(context.Background())
	})
	return server
}

func dial(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestARemoteVFSKeepsThePromises(t *testing.T) {
	for _, inside := range []string{"", "site-1"} {
		t.Run("inside="+inside, func(t *testing.T) {
			vfstest.Run(t, func(t *testing.T) vfs.Files {
				return dial(t, Options{URL: serve(t).URL + "/vfs", Credential: key, Inside: inside})
			})
		})
	}
}

func TestFilesAreFoundByID(t *testing.T) {
	server := serve(t)
	for _, inside := range []string{"", "site-1"} {
		c := dial(t, Options{URL: server.URL + "/vfs/", Credential: key, Inside: inside})
		f, err := c.Put(t.Context(), "upstairs", "a b/ä%.txt", strings.NewReader("x"), vfs.PutOptions{Size: -1})
		if err != nil {
			t.Fatal(err)
		}
		if found, err := c.ByID(t.Context(), "upstairs", f.ID); err != nil || found.Path != f.Path {
			t.Fatalf("found %+v, %v", found, err)
		}
		if u, err := c.Usage(t.Context()); err != nil || u.Used == 0 {
			t.Fatalf("usage %+v, %v", u, err)
		}
	}
}

func TestARevisionTellsOfChanges(t *testing.T) {
	server := serve(t)
	for _, inside := range []string{"", "site-1"} {
		c := dial(t, Options{URL: server.URL + "/vfs", Credential: key, Inside: inside})
		last := ""
		changed := func(what string, want bool) {
			t.Helper()
			now, err := c.Revision(t.Context(), "g", "dir/")
			if err != nil || (now != last) != want || now == "" {
				t.Fatalf("%s: revision %q after %q, %v", what, now, last, err)
			}
			last = now
		}
		changed("at first", true)
		changed("nothing", false)
		if _, err := c.Put(t.Context(), "g", "dir/f", strings.NewReader("x"), vfs.PutOptions{Size: 1}); err != nil {
			t.Fatal(err)
		}
		changed("a new file", true)
		changed("nothing", false)
		if _, err := c.Delete(t.Context(), "g", "dir/f", 0); err != nil {
			t.Fatal(err)
		}
		changed("a deletion", true)
		if _, err := c.Put(t.Context(), "g", "other/f", strings.NewReader("x"), vfs.PutOptions{Size: 1}); err != nil {
			t.Fatal(err)
		}
		changed("another folder", inside != "") // one folder for each group, there
	}
}

func TestAWrongCredentialIsNoPermission(t *testing.T) {
	c := dial(t, Options{URL: serve(t).URL + "/vfs", Credential: "wrong"})
	_, err := c.Stat(t.Context(), "g", "f")
	code(t, "stat", err, protocol.VFSPermission)
	_, err = c.Put(t.Context(), "g", "f", strings.NewReader("x"), vfs.PutOptions{Size: 1})
	code(t, "put", err, protocol.VFSPermission)
}

func code(t *testing.T, what string, err error, want protocol.Code) {
	t.Helper()
	if protocol.CodeOf(err) != want {
		t.Fatalf("%s: %v, want a %s", what, err, want)
	}
}

// everything asks everything of a VFS, and returns what it was told.
func everything(ctx context.Context, c *Client) map[string]error {
	errs := make(map[string]error)
	_, errs["stat"] = c.Stat(ctx, "g", "f")
	_, _, errs["open"] = c.Open(ctx, "g", "f", 0)
	_, errs["put"] = c.Put(ctx, "g", "f", strings.NewReader("content"), vfs.PutOptions{Size: 7})
	_, errs["delete"] = c.Delete(ctx, "g", "f", 0)
	_, _, errs["list"] = c.List(ctx, "g", "", "", 0, false)
	if revision, err := c.Revision(ctx, "g", ""); revision != "" || err != nil { // "" says nothing
		errs["revision"] = err
	}
	_, errs["snapshot"] = c.Snapshot(ctx, "g")
	_, errs["usage"] = c.Usage(ctx)
	_, errs["id"] = c.ByID(ctx, "g", "f")
	if _, err := c.Chunks(ctx, "g", "f", 1); !errors.Is(err, errors.ErrUnsupported) { // which says that it is to be done otherwise
		errs["chunks"] = err
	}
	_, errs["delta"] = c.PutDelta(ctx, "g", "f", vfs.Delta{Base: 1, Keep: []vfs.Run{{First: 0, Last: 0}}}, strings.NewReader("content"),
		vfs.PutOptions{Size: 7, SHA256: new(vfs.Sum)})
	results, err := c.PutBatch(ctx, "g", []vfs.Content{{Path: "f", Data: []byte("x"), PutOptions: vfs.PutOptions{Size: 1}}})
	if errs["batch"] = err; err == nil {
		errs["batch"] = results[0].Err
	}
	wholes, err := c.GetBatch(ctx, "g", []string{"f"})
	if errs["get batch"] = err; err == nil {
		errs["get batch"] = wholes[0].Err
	}
	return errs
}

func TestGarbageIsNoVFS(t *testing.T) {
	garbage := map[string]http.HandlerFunc{
		"a page":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>please log in") },
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"null":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "null") },
		"wrong types": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"success":"yes","files":7,"version":"x"}`)
		},
		"empty success": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"success":true,"files":[{}]}`) },
		"a path out": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"success":true,"file_id":"i","version":1,"path":"../f","files":[{"file_id":"i","version":1,"path":"../f"}]}`)
		},
		"server error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		},
		"a foreign code": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			fmt.Fprint(w, `{"error":{"code":"9999","message":"`+strings.Repeat("x", 5000)+`"}}`)
		},
		"endless": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		},
	}
	for what, handler := range garbage {
		t.Run(strings.ReplaceAll(what, " ", "_"), func(t *testing.T) {
			server := httptest.NewServer(handler)
			t.Cleanup(server.Close) // after the client
			c := dial(t, Options{URL: server.URL, Patience: 300 * time.Millisecond})
			for asked, err := range everything(t.Context(), c) {
				if got := protocol.CodeOf(err); got != protocol.VFSUnavailable && got != protocol.SyncFailed {
					t.Errorf("%s: %v", asked, err)
				}
				if err != nil && len(err.Error()) > 500 {
					t.Errorf("%s: a message of %d bytes", asked, len(err.Error()))
				}
			}
		})
	}
}

func TestNobodyThereIsUnavailable(t *testing.T) {
	for asked, err := range everything(t.Context(), dial(t, Options{URL: "http://127.0.0.1:1"})) {
		code(t, asked, err, protocol.VFSUnavailable)
	}
}

func TestAHangingVFSIsGivenUp(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-ended
	}))
	defer server.Close()
	defer close(ended)
	for asked, err := range everything(t.Context(), dial(t, Options{URL: server.URL, Patience: 20 * time.Millisecond})) {
		code(t, asked, err, protocol.VFSUnavailable)
	}
}

func TestAVFSThatTakesNoMoreIsGivenUp(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	defer server.Close()
	defer close(ended)
	c := dial(t, Options{URL: server.URL, Patience: 50 * time.Millisecond})
	_, err := c.Put(t.Context(), "g", "f", io.LimitReader(zeros{}, 1<<30), vfs.PutOptions{Size: 1 << 30})
	code(t, "put", err, protocol.VFSUnavailable)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestAReadThatBreaksOffGoesOn(t *testing.T) {
	server := serve(t)
	var cuts atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, _ := http.NewRequestWithContext(r.Context(), r.Method, server.URL+r.URL.RequestURI(), r.Body)
		request.Header = r.Header.Clone()
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer response.Body.Close()
		for name, values := range response.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(response.StatusCode)
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/download") && cuts.Add(1) < 4 {
			_, _ = io.CopyN(w, response.Body, 300_000)
			panic(http.ErrAbortHandler)
		}
		_, _ = io.Copy(w, response.Body)
	}))
	defer proxy.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	c := dial(t, Options{URL: proxy.URL + "/vfs", Credential: key})
	text := strings.Repeat("0123456789", 200_000)
	if _, err := c.Put(t.Context(), "g", "f", strings.NewReader(text), vfs.PutOptions{Size: int64(len(text))}); err != nil {
		t.Fatal(err)
	}
	r, _, err := c.Open(t.Context(), "g", "f", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil || string(data) != text || cuts.Load() < 4 {
		t.Fatalf("read %d bytes after %d requests, %v", len(data), cuts.Load(), err)
	}
}

func TestContentThatIsNotWhatItIsSaidToBeIsNoticed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-File-Id", "id")
		h.Set("X-File-Version", "7")
		h.Set("X-Checksum-Sha256", strings.Repeat("ab", 32))
		h.Set("Content-Length", "7")
		if r.Method == http.MethodGet {
			fmt.Fprint(w, "content")
		}
	}))
	defer server.Close()
	r, _, err := dial(t, Options{URL: server.URL}).Open(t.Context(), "g", "f", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = io.ReadAll(r)
	code(t, "read", err, protocol.SyncFailed)
}

func TestAddressesAreAskedAbout(t *testing.T) {
	c := dial(t, Options{URL: serve(t).URL + "/vfs", Credential: key, Control: func(string, string, syscall.RawConn) error {
		return errors.New("not there")
	}})
	_, err := c.Stat(t.Context(), "g", "f")
	code(t, "stat", err, protocol.VFSUnavailable)
}
