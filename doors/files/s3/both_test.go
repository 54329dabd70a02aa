package s3_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/doors/files/filestest"
	"github.com/aibridge/aibridge/doors/files/webdav"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

// serveBoth serves the same files by S3 and by WebDAV.
func serveBoth(t testing.TB) (w *world, dav *httptest.Server) {
	t.Helper()
	w = serve(t)
	authenticate := func(*http.Request) (*protocol.Principal, error) { return filestest.Party("alice", "-"), nil }
	door, err := webdav.New(webdav.Options{Locks: recordstest.New[webdav.Lock](), Files: w.Handler(t, authenticate), Authenticate: authenticate})
	if err != nil {
		t.Fatal(err)
	}
	return w, filestest.Serve(t, door)
}

// A step is something that a writer does with a file of its folder, by one of the doors.
type step struct {
	s3      bool
	do      string // put, create, delete, copy, move
	name    string
	to      string // of copy and move
	content string
}

func drawStep(t *rapid.T) step {
	name := rapid.SampledFrom([]string{"1", "2 b", "ä&?"})
	s := step{s3: rapid.Bool().Draw(t, "s3"), name: name.Draw(t, "name"), content: rapid.SampledFrom([]string{"", "x", "yy"}).Draw(t, "content")}
	s.do = rapid.SampledFrom([]string{"put", "put", "create", "delete", "copy", "move"}).Draw(t, "do")
	s.to = name.Filter(func(to string) bool { return to != s.name }).Draw(t, "to")
	s.s3 = s.s3 && s.do != "move" // which S3 does not have
	return s
}

// A writer works in a folder of its own, and knows what is there.
type writer struct {
	*world
	dav    string
	group  string
	folder string
	files  map[string]string
}

func escaped(path string) string {
	return strings.NewReplacer(" ", "%20", "ä", "%C3%A4", "&", "%26", "?", "%3F").Replace(path)
}

// byDav sends a request to WebDAV.
func (w *writer) byDav(method, name, body string, headers ...string) filestest.Answer {
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.dav+"/dav/"+w.group+"/"+escaped(w.folder+"/"+name), strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return filestest.Send(w.t, r)
}

func (w *writer) byS3(method, name, body string, headers ...string) filestest.Answer {
	return w.ask(method, "/s3/"+w.group+"/"+escaped(w.folder+"/"+name), body, nil, headers...)
}

// take does a step, and says whether it went as the writer's own knowledge has it.
func (w *writer) take(s step) error {
	_, there := w.files[s.name]
	ask := w.byDav
	if s.s3 {
		ask = w.byS3
	}
	var got filestest.Answer
	done := true
	switch s.do {
	case "put", "create":
		var condition []string
		if s.do == "create" {
			condition, done = []string{"If-None-Match", "*"}, !there
		}
		if got = ask(http.MethodPut, s.name, s.content, condition...); done {
			w.files[s.name] = s.content
		}
	case "delete":
		done = there || s.s3 // S3 deletes what is not there, too
		got = ask(http.MethodDelete, s.name, "")
		delete(w.files, s.name)
	default:
		if done = there; s.s3 {
			got = ask(http.MethodPut, s.to, "", "X-Amz-Copy-Source", "/"+w.group+"/"+escaped(w.folder+"/"+s.name))
		} else {
			got = ask(strings.ToUpper(s.do), s.name, "", "Destination", "/dav/"+w.group+"/"+escaped(w.folder+"/"+s.to))
		}
		if done {
			w.files[s.to] = w.files[s.name]
		}
		if done && s.do == "move" {
			delete(w.files, s.name)
		}
	}
	if done != (got.Status < 300) || !done && got.Status != http.StatusNotFound && got.Status != http.StatusPreconditionFailed {
		return fmt.Errorf("%+v in %s: %d %s", s, w.folder, got.Status, got.Body)
	}
	return w.sees(s.name, s.to)
}

// sees says whether both doors have files as the writer knows them.
func (w *writer) sees(names ...string) error {
	for _, name := range names {
		want, there := w.files[name]
		one, other := w.byDav(http.MethodGet, name, ""), w.byS3(http.MethodGet, name, "")
		for _, got := range []filestest.Answer{one, other} {
			if there != (got.Status == http.StatusOK) || there && got.Body != want || !there && got.Status != http.StatusNotFound {
				return fmt.Errorf("%s/%s is %d %s, want %q, %v", w.folder, name, got.Status, got.Body, want, there)
			}
		}
		if one.Header.Get("Etag") != other.Header.Get("Etag") {
			return fmt.Errorf("%s/%s has two tags: %s and %s", w.folder, name, one.Header.Get("Etag"), other.Header.Get("Etag"))
		}
	}
	return nil
}

// Whoever writes by whichever door, beside others, both doors have what was written.
func TestBothDoorsHaveTheSameFiles(t *testing.T) {
	t.Parallel()
	world, dav := serveBoth(t)
	groups := 0
	rapid.Check(t, func(rt *rapid.T) {
		groups++
		group := fmt.Sprint("group-", groups)
		filestest.Send(t, request(t, "MKCOL", dav.URL+"/dav/"+group)).Is(t, http.StatusCreated, "", "MKCOL")
		var writers []*writer
		var steps [][]step
		for i := range 2 {
			w := &writer{world, dav.URL, group, fmt.Sprint("folder-", i), map[string]string{}}
			filestest.Send(t, request(t, "MKCOL", dav.URL+"/dav/"+group+"/"+w.folder)).Is(t, http.StatusCreated, "", "MKCOL")
			writers = append(writers, w)
			steps = append(steps, rapid.SliceOfN(rapid.Custom(drawStep), 1, 8).Draw(rt, w.folder))
		}
		faults := make([]error, len(writers))
		var all sync.WaitGroup
		for i, w := range writers {
			all.Go(func() {
				for _, s := range steps[i] {
					if faults[i] = w.take(s); faults[i] != nil {
						return
					}
				}
			})
		}
		all.Wait()
		count := 0
		for i, w := range writers {
			if faults[i] != nil {
				rt.Fatal(faults[i])
			}
			count += len(w.files)
			listed := filestest.Send(t, request(t, "PROPFIND", dav.URL+"/dav/"+group+"/"+w.folder+"/"))
			if got := strings.Count(listed.Body, "<D:response>") - 1; got != len(w.files) {
				rt.Fatalf("WebDAV lists %d files in %s, want %v: %s", got, w.folder, w.files, listed.Body)
			}
		}
		listed := world.ask(http.MethodGet, "/s3/"+group+"?list-type=2&prefix=folder-", "", nil)
		if got := strings.Count(listed.Body, "<Key>") - strings.Count(listed.Body, "/</Key>"); got != count {
			rt.Fatalf("S3 lists %d files, want %d: %s", got, count, listed.Body)
		}
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// request is one to WebDAV, of a folder and what is directly in it.
func request(t testing.TB, method, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Depth", "1")
	return r
}
