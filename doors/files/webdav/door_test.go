package webdav_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/doors/files/filestest"
	"github.com/aibridge/aibridge/doors/files/webdav"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// A world is a VFS behind WebDAV. The user of HTTP Basic names the principal, with
// its space before a slash.
type world struct {
	*httptest.Server
	*filestest.House
	t      testing.TB
	now    time.Time
	denied string // action and group
}

func serve(t testing.TB) *world {
	t.Helper()
	w := &world{House: filestest.New(4 << 20), t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w.Authorize = func(who *protocol.Principal, action, group string) error {
		switch {
		case who.ID == "observer" && (action == "vfs:write" || action == "vfs:delete"):
			return protocol.Errorf(protocol.PermissionDenied, "observers may not %s", action)
		case action+" "+group == w.denied:
			return protocol.Errorf(protocol.PermissionDenied, "nobody may %s", w.denied)
		}
		return nil
	}
	authenticate := func(r *http.Request) (*protocol.Principal, error) {
		name, _, ok := r.BasicAuth()
		if !ok {
			return filestest.Nobody(r)
		}
		return filestest.Party(name, "/"), nil
	}
	door, err := webdav.New(webdav.Options{Files: w.Handler(t, authenticate), Locks: recordstest.New[webdav.Lock](), Authenticate: authenticate, Now: func() time.Time { return w.now }})
	if err != nil {
		t.Fatal(err)
	}
	w.Server = filestest.Serve(t, door)
	return w
}

// ask sends a request: as alice, unless a header says otherwise.
func (w *world) ask(method, path, body string, headers ...string) filestest.Answer {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	request.SetBasicAuth("alice", "")
	for i := 0; i+1 < len(headers); i += 2 {
		switch value := strings.ReplaceAll(headers[i+1], "URL", w.URL); headers[i] {
		case "As":
			request.SetBasicAuth(value, "")
		default:
			request.Header.Set(headers[i], value)
		}
	}
	return filestest.Send(w.t, request)
}

// must fails unless the answer has a status, and text in its body.
func (w *world) must(status int, has, method, path, body string, headers ...string) filestest.Answer {
	w.t.Helper()
	return w.ask(method, path, body, headers...).Is(w.t, status, has, method, path, headers)
}

func TestFilesLiveInFolders(t *testing.T) {
	w := serve(t)
	w.must(207, "<D:href>/dav/</D:href>", "PROPFIND", "/dav/", "", "Depth", "1")
	w.must(409, "does not exist", "MKCOL", "/dav/docs/deep", "")
	w.must(201, "", "MKCOL", "/dav/docs", "")
	w.must(405, "is there", "MKCOL", "/dav/docs/", "")
	w.must(201, "", "MKCOL", "/dav/docs/plans/", "")
	w.must(409, "plans/none", "PUT", "/dav/docs/plans/none/f", "x")
	put := w.must(201, "", "PUT", "/dav/docs/plans/a%20b.txt", "hello", "Content-Type", "text/plain", "X-OC-Mtime", "1700000000")
	if put.Header.Get("Etag") != `"LPJNul-wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ"` || put.Header.Get("X-Oc-Mtime") != "accepted" {
		t.Errorf("the answer to PUT has %v", put.Header)
	}
	w.must(204, "", "PUT", "/dav/docs/plans/a%20b.txt", "hello")
	got := w.must(200, "hello", "GET", "/dav/docs/plans/a%20b.txt", "")
	if got.Header.Get("Content-Disposition") == "" || got.Header.Get("Etag") != put.Header.Get("Etag") {
		t.Errorf("the answer to GET has %v", got.Header)
	}
	w.must(206, "ell", "GET", "/dav/docs/plans/a%20b.txt", "", "Range", "bytes=1-3")
	w.must(304, "", "GET", "/dav/docs/plans/a%20b.txt", "", "If-None-Match", put.Header.Get("Etag"))
	w.must(405, "folder", "GET", "/dav/docs/plans/", "")
	list := w.must(207, "<D:href>/dav/docs/plans/a%20b.txt</D:href>", "PROPFIND", "/dav/docs/plans", "", "Depth", "1")
	if strings.Contains(list.Body, ".folder") || !strings.Contains(list.Body, "<D:getcontentlength>5</D:getcontentlength>") {
		t.Errorf("the list is %s", list.Body)
	}
	w.must(207, "404 Not Found", "PROPFIND", "/dav/docs/", `<propfind xmlns="DAV:"><prop><getetag/><x xmlns="urn:x"/></prop></propfind>`, "Depth", "0")
	w.must(207, "quota-available-bytes", "PROPFIND", "/dav/docs/", `<propfind xmlns="DAV:"><prop><quota-available-bytes/></prop></propfind>`, "Depth", "0")
	w.must(403, "propfind-finite-depth", "PROPFIND", "/dav/", "", "Depth", "infinity")
	w.must(207, "cannot-modify-protected-property", "PROPPATCH", "/dav/docs/plans/a%20b.txt", `<propertyupdate xmlns="DAV:"><set><prop><x xmlns="urn:x">1</x></prop></set></propertyupdate>`)
	w.must(201, "", "COPY", "/dav/docs/plans/a%20b.txt", "", "Destination", "URL/dav/docs/copy")
	w.must(412, "Overwrite", "COPY", "/dav/docs/plans/a%20b.txt", "", "Destination", "/dav/docs/copy", "Overwrite", "F")
	w.must(204, "", "COPY", "/dav/docs/plans/a%20b.txt", "", "Destination", "/dav/docs/copy")
	w.must(409, "", "COPY", "/dav/docs/copy", "", "Destination", "/dav/docs/none/copy")
	w.must(201, "", "MOVE", "/dav/docs/plans", "", "Destination", "/dav/docs/old")
	w.must(404, "4003", "GET", "/dav/docs/plans/a%20b.txt", "")
	w.must(200, "hello", "GET", "/dav/docs/old/a%20b.txt", "")
	w.must(403, "within", "MOVE", "/dav/docs/old", "", "Destination", "/dav/docs/old/deep")
	w.must(502, "another server", "MOVE", "/dav/docs/old", "", "Destination", "http://example.com/dav/docs/x")
	w.must(204, "", "DELETE", "/dav/docs/old/a%20b.txt", "")
	w.must(207, "collection", "PROPFIND", "/dav/docs/old", "", "Depth", "0") // the folder stays
	w.must(204, "", "DELETE", "/dav/docs", "")
	w.must(404, "", "PROPFIND", "/dav/docs", "", "Depth", "0")
	if got := w.Deeds(); !strings.Contains(got, "vfs.put docs/plans/a b.txt done, ") || !strings.Contains(got, "vfs.move docs/old done") {
		t.Errorf("recorded is %s", got)
	}
}

func TestConditionsKeepWritersApart(t *testing.T) {
	w := serve(t)
	first := w.must(201, "", "PUT", "/dav/g/f", "one", "If-None-Match", "*").Header.Get("Etag")
	w.must(412, "If-None-Match", "PUT", "/dav/g/f", "two", "If-None-Match", "*")
	w.must(412, "If-Match", "PUT", "/dav/g/f", "two", "If-Match", `"0000"`)
	w.must(204, "", "PUT", "/dav/g/f", "two", "If-Match", first)
	w.must(412, "If-Match", "PUT", "/dav/g/f", "three", "If-Match", first)
	w.must(412, "If-Match", "DELETE", "/dav/g/f", "", "If-Match", first)
	w.must(412, "If", "PUT", "/dav/g/f", "three", "If", "(["+first+"])")
	w.must(412, "If-Match", "PUT", "/dav/g/new", "x", "If-Match", "*")
	w.must(204, "", "PUT", "/dav/g/f", "three", "If", "(Not ["+first+"])")
	w.must(400, "If", "PUT", "/dav/g/f", "x", "If", "(<")
	w.must(204, "", "DELETE", "/dav/g/f", "", "If-Match", "*")
}

const exclusive = `<lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype><owner><href>mailto:a&amp;b</href></owner></lockinfo>`

func TestLocksKeepOthersOut(t *testing.T) {
	w := serve(t)
	w.must(201, "", "MKCOL", "/dav/g", "")
	w.must(201, "", "PUT", "/dav/g/f", "one")
	token := w.must(200, "mailto:a&amp;b", "LOCK", "/dav/g/f", exclusive, "Timeout", "Second-60").Header.Get("Lock-Token")
	w.must(423, "no-conflicting-lock", "LOCK", "/dav/g/f", exclusive)
	w.must(423, "<D:href>/dav/g/f</D:href>", "PUT", "/dav/g/f", "two")
	w.must(423, "lock-token-submitted", "DELETE", "/dav/g", "")
	w.must(423, "", "MOVE", "/dav/g/f", "", "Destination", "/dav/g/h")
	w.must(201, "", "COPY", "/dav/g/f", "", "Destination", "/dav/g/h")
	w.must(423, "", "COPY", "/dav/g/h", "", "Destination", "/dav/g/f")
	w.must(204, "", "PUT", "/dav/g/f", "two", "If", "("+token+")")
	w.must(204, "", "PUT", "/dav/g/f", "two", "If", "<URL/dav/g/f> ("+token+")")
	w.must(412, "", "PUT", "/dav/g/f", "two", "If", "(<urn:other>)")
	w.must(200, "Second-60", "LOCK", "/dav/g/f", "", "If", "("+token+")", "Timeout", "Second-60")
	w.must(207, "<D:locktoken><D:href>"+strings.Trim(token, "<>"), "PROPFIND", "/dav/g/f", "", "Depth", "0")
	w.must(409, "lock-token-matches-request-uri", "UNLOCK", "/dav/g/h", "", "Lock-Token", token)
	w.must(409, "", "UNLOCK", "/dav/g/f", "", "Lock-Token", token, "As", "root")
	w.must(204, "", "UNLOCK", "/dav/g/f", "", "Lock-Token", token)
	w.must(204, "", "PUT", "/dav/g/f", "three")

	deep := w.must(200, "infinity", "LOCK", "/dav/g/", exclusive).Header.Get("Lock-Token")
	w.must(423, "", "PUT", "/dav/g/new", "x")
	w.must(423, "", "LOCK", "/dav/g/f", exclusive)
	w.must(201, "", "PUT", "/dav/g/new", "x", "If", "<URL/dav/g/> ("+deep+")")
	w.now = w.now.Add(2 * time.Hour)
	w.must(204, "", "PUT", "/dav/g/f", "the lock has ended")

	empty := w.must(201, "", "LOCK", "/dav/g/lock-null", exclusive, "Depth", "0").Header.Get("Lock-Token")
	w.must(200, "", "GET", "/dav/g/lock-null", "")
	w.must(204, "", "DELETE", "/dav/g/lock-null", "", "If", "("+empty+")")
	w.must(201, "", "PUT", "/dav/g/lock-null", "its lock went with it")

	shared := strings.ReplaceAll(exclusive, "exclusive", "shared")
	one, other := w.must(200, "shared", "LOCK", "/dav/g/f", shared).Header.Get("Lock-Token"), w.must(200, "shared", "LOCK", "/dav/g/f", shared).Header.Get("Lock-Token")
	w.must(423, "", "LOCK", "/dav/g/f", exclusive)
	w.must(423, "", "PUT", "/dav/g/f", "x")
	w.must(204, "", "PUT", "/dav/g/f", "x", "If", "("+one+")")
	w.must(204, "", "UNLOCK", "/dav/g/f", "", "Lock-Token", one)
	w.must(204, "", "UNLOCK", "/dav/g/f", "", "Lock-Token", other)
}

func TestLocksAreBounded(t *testing.T) {
	w := serve(t)
	w.must(201, "", "MKCOL", "/dav/g", "")
	for i := range 256 {
		w.must(201, "", "LOCK", fmt.Sprint("/dav/g/", i), exclusive, "Depth", "0")
	}
	if a := w.ask("LOCK", "/dav/g/more", exclusive); a.Status < 400 || !strings.Contains(a.Body, "256") {
		t.Errorf("one more: %d %s", a.Status, a.Body)
	}
	w.must(404, "", "GET", "/dav/g/more", "")
	w.now = w.now.Add(time.Hour)
	w.must(201, "", "LOCK", "/dav/g/more", exclusive)
}

// Groups of others look as if they did not exist, whatever is tried.
func TestGroupsOfOthersAreHidden(t *testing.T) {
	w := serve(t)
	w.must(201, "", "PUT", "/dav/secret/f", "x")
	for _, who := range []string{"bob", "acme/alice"} {
		for _, c := range [][]string{
			{"GET", "/dav/secret/f"}, {"PROPFIND", "/dav/secret", "Depth", "1"}, {"DELETE", "/dav/secret/f"}, {"DELETE", "/dav/secret"},
			{"COPY", "/dav/secret/f", "Destination", "/dav/mine/f"}, {"MOVE", "/dav/secret", "Destination", "/dav/mine"},
		} {
			there := w.ask(c[0], c[1], "", append(c[2:], "As", who)...)
			not := w.ask(c[0], strings.ReplaceAll(c[1], "secret", "nothing"), "", append(c[2:], "As", who)...)
			if there.Status != 404 || strings.ReplaceAll(there.Body, "secret", "nothing") != not.Body {
				t.Errorf("%s %v: %d %s, not as %d %s", who, c, there.Status, there.Body, not.Status, not.Body)
			}
		}
		if a := w.ask("PROPFIND", "/dav/", "", "Depth", "1", "As", who); strings.Contains(a.Body, "secret") {
			t.Errorf("%s sees %s", who, a.Body)
		}
	}
	w.must(403, "4004", "PUT", "/dav/secret/f", "mine", "As", "bob")
	w.must(201, "", "PUT", "/dav/secret/f", "another space", "As", "acme/alice")
	w.must(200, "x", "GET", "/dav/secret/f", "")
	w.must(403, "4004", "PUT", "/dav/elsewhere/f", "x", "As", "observer")
	w.must(403, "4004", "MKCOL", "/dav/elsewhere", "", "As", "observer")
	if a := w.ask("GET", "/dav/secret/f", "", "Authorization", "Bearer x"); a.Status != 401 || !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Basic") {
		t.Errorf("without a credential: %d %v", a.Status, a.Header)
	}
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	w := serve(t)
	w.must(201, "", "PUT", "/dav/g/f", "x")
	deep := strings.Repeat("<a>", 20) + strings.Repeat("</a>", 20)
	for _, c := range []struct {
		status            int
		has, method, path string
		body              string
		headers           []string
	}{
		{400, ". or ..", "PUT", "/dav/g/%2e%2e/x", "x", nil},
		{400, ". or ..", "PUT", "/dav/g/..%2fx", "x", nil},
		{400, "relative", "PUT", "/dav/g//x", "x", nil},
		{400, "control", "PUT", "/dav/g/a%00b", "x", nil},
		{400, "backslash", "PUT", "/dav/g/a%5c..%5cb", "x", nil},
		{400, "UTF-8", "PUT", "/dav/g/%ff", "x", nil},
		{400, "invisible", "PUT", "/dav/g/a%e2%80%aeb", "x", nil},
		{400, "device", "PUT", "/dav/g/con.txt", "x", nil},
		{400, "", "PUT", "/dav/%2e%2e/x", "x", nil},
		{400, "bridge", "GET", "/dav/g/.folder", "", nil},
		{400, "path", "PUT", "/dav/g/" + strings.Repeat("a/", 600) + "x", "x", nil},
		{409, "folder", "PUT", "/dav/g/x/", "x", nil},
		{409, "4003", "PUT", "/dav/g/f/x", "x", nil},
		{409, "3002", "PUT", "/dav/g/F", "x", nil},
		{400, "Content-Range", "PUT", "/dav/g/x", "x", []string{"Content-Range", "bytes 0-0/2"}},
		{400, "Content-Encoding", "PUT", "/dav/g/x", "x", []string{"Content-Encoding", "gzip"}},
		{413, "1004", "PUT", "/dav/g/x", strings.Repeat("x", 3<<20), nil},
		{415, "", "MKCOL", "/dav/g/x", "x", nil},
		{400, "declare a type", "PROPFIND", "/dav/g", `<!DOCTYPE a [<!ENTITY b "c">]><propfind xmlns="DAV:"><prop/></propfind>`, []string{"Depth", "0"}},
		{400, "well-formed", "PROPFIND", "/dav/g", `<propfind xmlns="DAV:"><prop>&b;</prop></propfind>`, []string{"Depth", "0"}},
		{400, "deep", "PROPFIND", "/dav/g", deep, []string{"Depth", "0"}},
		{400, "no namespace", "PROPFIND", "/dav/g", `<D:propfind xmlns:D="DAV:"><D:prop><a:b xmlns:a=""/></D:prop></D:propfind>`, []string{"Depth", "0"}},
		{413, "1004", "PROPFIND", "/dav/g", `<propfind xmlns="DAV:">` + strings.Repeat(" ", 70<<10) + `</propfind>`, []string{"Depth", "0"}},
		{400, "propname", "PROPFIND", "/dav/g", `<propfind xmlns="DAV:"/>`, []string{"Depth", "0"}},
		{400, "Depth", "PROPFIND", "/dav/g", "", []string{"Depth", "2"}},
		{403, "4004", "DELETE", "/dav/", "", nil},
		{400, "Destination", "COPY", "/dav/g/f", "", nil},
		{400, ". or ..", "COPY", "/dav/g/f", "", []string{"Destination", "/dav/g/%2e%2e/%2e%2e/x"}},
		{404, "", "COPY", "/dav/g/f", "", []string{"Destination", "/vfs/g/f"}},
		{403, "", "COPY", "/dav/g/f", "", []string{"Destination", "/dav/g/f"}},
		{405, "PROPFIND", "PATCH", "/dav/g/f", "", nil},
		{416, "", "GET", "/dav/g/f", "", []string{"Range", "bytes=9999999999-"}},
	} {
		w.must(c.status, c.has, c.method, c.path, c.body, c.headers...)
	}
	if a := w.ask("OPTIONS", "/dav/g/f", ""); a.Status != 200 || a.Header.Get("Dav") != "1, 2" {
		t.Errorf("OPTIONS: %d %v", a.Status, a.Header)
	}
	if a := w.ask("PROPFIND", "/dav/g", "", "Depth", "1"); strings.Count(a.Body, "<D:response>") != 2 {
		t.Errorf("something has been made: %s", a.Body)
	}
}

// An upload that breaks off leaves the file as it was.
func TestHalfAnUploadIsNone(t *testing.T) {
	w := serve(t)
	w.must(201, "", "PUT", "/dav/g/f", "whole")
	r, half := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), "PUT", w.URL+"/dav/g/f", r)
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth("alice", "")
	go func() {
		_, _ = half.Write([]byte("ha"))
		_ = half.CloseWithError(io.ErrUnexpectedEOF)
	}()
	if response, err := http.DefaultTransport.RoundTrip(request); err == nil {
		response.Body.Close()
		t.Errorf("half an upload is answered %d", response.StatusCode)
	}
	w.must(200, "whole", "GET", "/dav/g/f", "")
}

// A folder that has no room at its target leaves the target as it was, be it a file
// or a folder.
func TestACopyWithoutRoomLosesNothing(t *testing.T) {
	for name, place := range map[string]string{"a folder": "/dav/to/it/kept", "a file": "/dav/to/it"} {
		t.Run(name, func(t *testing.T) {
			w := serve(t)
			large := strings.Repeat("x", 3<<19) // of the 4 MiB that a group may have
			w.must(201, "", "MKCOL", "/dav/from", "")
			w.must(201, "", "PUT", "/dav/from/1", large+"1")
			w.must(201, "", "PUT", "/dav/from/2", large+"2")
			w.must(201, "", "MKCOL", "/dav/to", "")
			if place != "/dav/to/it" {
				w.must(201, "", "MKCOL", "/dav/to/it", "")
			}
			w.must(201, "", "PUT", place, large+"kept")
			w.must(507, "quota-not-exceeded", "COPY", "/dav/from", "", "Destination", "/dav/to/it")
			w.must(200, "xkept", "GET", place, "")
			w.must(507, "quota-not-exceeded", "MOVE", "/dav/from", "", "Destination", "/dav/to/it")
			w.must(200, "xkept", "GET", place, "")
			for _, file := range []string{"1", "2"} {
				if w.ask("GET", "/dav/from/"+file, "").Status != 200 && w.ask("GET", "/dav/to/it/"+file, "").Status != 200 {
					t.Errorf("%s is lost", file)
				}
			}
			w.must(204, "", "DELETE", "/dav/to/it", "")
			w.must(201, "", "MOVE", "/dav/from", "", "Destination", "/dav/to/it")
		})
	}
}

// A copy of a folder tells the names in it.
func TestAFolderIsCopiedByThoseWhoMayListIt(t *testing.T) {
	w := serve(t)
	w.must(201, "", "MKCOL", "/dav/mine", "")
	w.must(201, "", "PUT", "/dav/mine/f", "x")
	w.must(201, "", "MKCOL", "/dav/other", "")
	w.denied = "vfs:list mine"
	w.must(201, "", "COPY", "/dav/mine/f", "", "Destination", "/dav/other/f")
	w.must(403, w.denied, "COPY", "/dav/mine", "", "Destination", "/dav/other/mine")
	w.must(403, w.denied, "MOVE", "/dav/mine", "", "Destination", "/dav/other/mine")
}

// A name that a system sends decomposed is the composed one.
func TestNamesAreComposed(t *testing.T) {
	w := serve(t)
	w.must(201, "", "PUT", "/dav/g/cafe%CC%81", "x")
	w.must(200, "x", "GET", "/dav/g/caf%C3%A9", "")
}
