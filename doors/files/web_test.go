package files_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	filesdoor "github.com/aibridge/aibridge/doors/files"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant/granttest"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/vfstest"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// A world is a VFS behind HTTP, where who asks is whom the Authorization
// header names.
type world struct {
	*httptest.Server
	t     testing.TB
	spool string
}

func serve(t testing.TB, change ...func(*filesdoor.Options)) *world {
	t.Helper()
	store := vfs.NewStore(vfs.StoreOptions{Records: recordstest.New[vfs.Record](), Blobs: vfstest.NewBlobs(), Quota: 4 << 20})
	service := vfs.New(vfs.Options{Store: store, Groups: recordstest.New[vfs.Group](), Remotes: recordstest.New[vfs.Remote]()})
	w := &world{t: t, spool: t.TempDir()}
	o := filesdoor.Options{
		Service: service,
		Authenticate: func(r *http.Request) (*protocol.Principal, error) {
			name := r.Header.Get("Authorization")
			if name == "" {
				return nil, fmt.Errorf("no header")
			}
			return &protocol.Principal{Kind: protocol.KindOperator, ID: name, Space: protocol.DefaultSpace}, nil
		},
		Authorize: func(_ context.Context, who *protocol.Principal, action string, on commands.Resource) error {
			if who.ID == "observer" && action == "vfs:write" {
				return protocol.Errorf(protocol.PermissionDenied, "observers may not %s", action)
			}
			return nil
		},
		Sync:    http.NotFoundHandler(),
		Spool:   w.spool,
		MaxFile: 2 << 20,
	}
	for _, f := range change {
		f(&o)
	}
	handler, err := filesdoor.New(o)
	if err != nil {
		t.Fatal(err)
	}
	w.Server = httptest.NewServer(handler)
	t.Cleanup(func() { w.CloseClientConnections(); w.Close() })
	return w
}

// An answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) code() string {
	var e struct {
		Error *struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(a.body), &e) != nil || e.Error == nil {
		return ""
	}
	return e.Error.Code
}

func (a answer) file(t testing.TB) (f vfs.FileView) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &f); err != nil || a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	return f
}

// ask sends a request: as alice, unless a header says otherwise.
func (w *world) ask(method, path string, query url.Values, body io.Reader, headers ...string) answer {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.URL+path+"?"+query.Encode(), body)
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header.Set("Authorization", "alice")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := w.Client().Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(data)}
}

func at(path string) url.Values { return url.Values{"group_name": {"g"}, "path": {path}} }

func (w *world) put(path, text string, headers ...string) answer {
	w.t.Helper()
	return w.ask(http.MethodPut, "/vfs/upload", at(path), strings.NewReader(text), headers...)
}

func (w *world) get(path string, headers ...string) answer {
	w.t.Helper()
	return w.ask(http.MethodGet, "/vfs/download", at(path), nil, headers...)
}

func (a answer) want(t testing.TB, what string, status int, code string) {
	t.Helper()
	if a.status != status || a.code() != code {
		t.Fatalf("%s: %d %s, want %d %s", what, a.status, a.body, status, code)
	}
}

// form posts a form of parts, "name=value" or "file:NAME=content".
func (w *world) form(parts ...string) answer {
	w.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, part := range parts {
		name, value, _ := strings.Cut(part, "=")
		var to io.Writer
		var err error
		if file, ok := strings.CutPrefix(name, "file:"); ok {
			to, err = form.CreateFormFile("file", file)
		} else {
			to, err = form.CreateFormField(name)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		_, _ = io.WriteString(to, value)
	}
	_ = form.Close()
	return w.ask(http.MethodPost, "/vfs/upload", nil, &body, "Content-Type", form.FormDataContentType())
}

func TestAFormUploadsAFile(t *testing.T) {
	w := serve(t)
	for name, parts := range map[string][]string{
		"names first": {"group_name=g", "path=a.txt", "file:other.txt=content"},
		"file first":  {"file:../../etc/passwd=content", "group_name=g", "path=b.txt"},
		"with sums":   {"group_name=g", "path=c.txt", "size=7", fmt.Sprintf("checksum=%x", sha256.Sum256([]byte("content"))), "file:x=content"},
	} {
		f := w.form(parts...).file(t)
		if f.Size != 7 || f.ID == "" || f.Version == 0 || f.Checksum != fmt.Sprintf("%x", sha256.Sum256([]byte("content"))) {
			t.Errorf("%s: %+v", name, f)
		}
		if got := w.get(f.Path); got.body != "content" || got.status != http.StatusOK {
			t.Errorf("%s: downloaded %d %q", name, got.status, got.body)
		}
		byID := w.ask(http.MethodGet, "/vfs/download", url.Values{"group_name": {"g"}, "file_id": {f.ID}}, nil)
		if byID.body != "content" {
			t.Errorf("%s: by id %q", name, byID.body)
		}
	}
	if left, err := os.ReadDir(w.spool); err != nil || len(left) != 0 {
		t.Errorf("left in the spool: %v, %v", left, err)
	}
}

func TestFormsThatMakeNoSenseAreRefused(t *testing.T) {
	w := serve(t)
	for what, parts := range map[string][]string{
		"no file":             {"group_name=g", "path=a"},
		"no names":            {"file:x=content"},
		"two files":           {"group_name=g", "path=a", "file:x=1", "file:y=2"},
		"another field":       {"group_name=g", "path=a", "mode=0777", "file:x=1"},
		"two paths":           {"group_name=g", "path=a", "path=b", "file:x=1"},
		"a size after":        {"group_name=g", "path=a", "file:x=1", "size=1"},
		"a size that is none": {"group_name=g", "path=a", "size=-1", "file:x=1"},
		"a path out":          {"group_name=g", "path=../a", "file:x=1"},
		"a group out":         {"group_name=..", "path=a", "file:x=1"},
		"a long name":         {"group_name=g", "path=" + strings.Repeat("x", 5000), "file:x=1"},
	} {
		w.form(parts...).want(t, what, http.StatusBadRequest, "1001")
	}
	w.form("group_name=g", "path=a", "size=3", "file:x=1234").want(t, "longer than announced", http.StatusBadRequest, "4002")
	w.ask(http.MethodPost, "/vfs/upload", nil, strings.NewReader("--x\r\nbroken"), "Content-Type", "multipart/form-data; boundary=x").
		want(t, "a broken form", http.StatusBadRequest, "4002")
	if got := w.ask(http.MethodGet, "/vfs/list", url.Values{"group_name": {"g"}}, nil); strings.Contains(got.body, `"path"`) {
		t.Fatalf("something was stored: %s", got.body)
	}
}

func TestUploadsAreBounded(t *testing.T) {
	w := serve(t)
	big := strings.Repeat("x", 2<<20+1)
	w.put("a", big).want(t, "too large", http.StatusRequestEntityTooLarge, "1004")
	w.ask(http.MethodPut, "/vfs/upload", at("a"), struct{ io.Reader }{strings.NewReader(big + big)}).
		want(t, "too large, of unknown length", http.StatusRequestEntityTooLarge, "1004")
	w.form("group_name=g", "path=a", "file:x="+big+big).want(t, "too large, in a form", http.StatusRequestEntityTooLarge, "1004")
	w.form("file:x="+big+big, "group_name=g", "path=a").want(t, "too large, before its name", http.StatusRequestEntityTooLarge, "1004")
	for i := range 3 {
		content := make([]byte, 2<<20-i)
		want, code := http.StatusOK, ""
		if i == 2 {
			want, code = http.StatusInsufficientStorage, "4005"
		}
		content[0] = byte(i)
		w.put(fmt.Sprint("f", i), string(content)).want(t, fmt.Sprint("file ", i), want, code)
	}
}

func TestPreconditionsKeepWritersApart(t *testing.T) {
	w := serve(t)
	first := w.put("f", "one", "If-None-Match", "*")
	first.want(t, "create", http.StatusOK, "")
	etag := first.header.Get("Etag")
	w.put("f", "two", "If-None-Match", "*").want(t, "create again", http.StatusPreconditionFailed, "3003")
	second := w.put("f", "two", "If-Match", etag)
	second.want(t, "replace", http.StatusOK, "")
	w.put("f", "three", "If-Match", etag).want(t, "replace an old version", http.StatusPreconditionFailed, "3003")
	w.put("f", "three", "If-Match", "nonsense").want(t, "a tag of another kind", http.StatusBadRequest, "1001")
	w.ask(http.MethodDelete, "/vfs/delete", at("f"), nil, "If-Match", etag).want(t, "delete an old version", http.StatusPreconditionFailed, "3003")
	if got := w.get("f"); got.body != "two" || got.header.Get("Etag") != second.header.Get("Etag") {
		t.Fatalf("there is %+v", got)
	}
	w.get("f", "If-None-Match", second.header.Get("Etag")).want(t, "not modified", http.StatusNotModified, "")
	w.get("f", "If-Match", etag).want(t, "another version", http.StatusPreconditionFailed, "3003")
	old := at("f")
	old.Set("version", strings.Trim(etag, `"`))
	if got := w.ask(http.MethodGet, "/vfs/download", old, nil); got.body != "one" {
		t.Fatalf("the old version is %+v", got)
	}
	w.ask(http.MethodDelete, "/vfs/delete", at("f"), nil, "If-Match", second.header.Get("Etag")).want(t, "delete", http.StatusOK, "")
	w.get("f").want(t, "gone", http.StatusNotFound, "4003")
	w.ask(http.MethodDelete, "/vfs/delete", at("f"), nil).want(t, "delete twice", http.StatusNotFound, "4003")
}

func TestRangesAndChecksums(t *testing.T) {
	w := serve(t)
	sum := sha256.Sum256([]byte("0123456789"))
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	wrong := strings.Repeat("ab", 32)
	w.put("f", "0123456789", "X-Checksum-SHA256", wrong).want(t, "a wrong checksum", http.StatusBadRequest, "4002")
	w.put("f", "0123456789", "X-Checksum-SHA256", "xyz").want(t, "no checksum", http.StatusBadRequest, "1001")
	w.put("f", "0123456789", "Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(make([]byte, 32))+":").want(t, "a wrong digest", http.StatusBadRequest, "4002")
	w.get("f").want(t, "after them", http.StatusNotFound, "4003")
	w.put("f", "0123456789", "X-Checksum-SHA256", fmt.Sprintf("%x", sum), "Repr-Digest", digest).want(t, "put", http.StatusOK, "")
	for asked, want := range map[string]string{"bytes=0-3": "0123", "bytes=7-": "789", "bytes=-2": "89", "bytes=4-4": "4"} {
		if got := w.get("f", "Range", asked); got.status != http.StatusPartialContent || got.body != want {
			t.Errorf("%s: %d %q", asked, got.status, got.body)
		}
	}
	if got := w.get("f", "Range", "bytes=20-"); got.status != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a range beyond the end: %d", got.status)
	}
	head := w.ask(http.MethodHead, "/vfs/download", at("f"), nil)
	if head.body != "" || head.header.Get("Content-Length") != "10" || head.header.Get("X-Checksum-Sha256") != fmt.Sprintf("%x", sum) || head.header.Get("Repr-Digest") != digest {
		t.Errorf("HEAD: %+v", head)
	}
}

func TestNothingAnUploadSaysBecomesAHeaderTrick(t *testing.T) {
	w := serve(t)
	for path, want := range map[string]string{
		`a"b;x.txt`: `attachment; filename="a_b;x.txt"; filename*=UTF-8''a%22b%3Bx.txt`,
		"温度.html":   `attachment; filename="__.html"; filename*=UTF-8''%E6%B8%A9%E5%BA%A6.html`,
		"plain.txt": `attachment; filename="plain.txt"`,
	} {
		w.put(path, "<script>", "Content-Type", "text/html; charset=utf-8").want(t, path, http.StatusOK, "")
		got := w.get(path).header
		if got.Get("Content-Disposition") != want {
			t.Errorf("%s: %s", path, got.Get("Content-Disposition"))
		}
		if got.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%s: %s", path, got.Get("Content-Type"))
		}
	}
	for _, kind := range []string{"text/html\x00", "no type", "a/b; c", strings.Repeat("x", 300) + "/y"} {
		f := w.form("group_name=g", "path=typed", "file:x=1")
		f.want(t, kind, http.StatusOK, "")
		if got := w.put("typed", kind, "Content-Type", strings.TrimRight(kind, "\x00")); got.status != http.StatusOK && got.code() != "1001" {
			t.Errorf("%q: %d %s", kind, got.status, got.body)
		}
		if got := w.get("typed").header.Get("Content-Type"); got != "application/octet-stream" && got != "text/html" {
			t.Errorf("%q is sent as %q", kind, got)
		}
	}
}

func TestListsComeInPages(t *testing.T) {
	w := serve(t)
	for _, path := range []string{"a", "dir/1", "dir/2", "dir/sub/3", "dirt"} {
		w.put(path, path).want(t, path, http.StatusOK, "")
	}
	list := func(query string) (paths, next string) {
		values, err := url.ParseQuery("group_name=g&" + query)
		if err != nil {
			t.Fatal(err)
		}
		var got filesdoor.ListResult
		if err := json.Unmarshal([]byte(w.ask(http.MethodGet, "/vfs/list", values, nil).body), &got); err != nil || !got.Success {
			t.Fatalf("%s: %+v, %v", query, got, err)
		}
		for _, f := range got.Files {
			paths += f.Path + " "
		}
		return strings.TrimSpace(paths), got.Next
	}
	for query, want := range map[string]string{
		"": "a dir/1 dir/2 dir/sub/3 dirt", "path=dir": "dir/1 dir/2 dir/sub/3", "path=dir/": "dir/1 dir/2 dir/sub/3",
		"path=a": "a", "prefix=dir": "dir/1 dir/2 dir/sub/3 dirt", "path=none": "",
	} {
		if got, _ := list(query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	first, next := list("limit=2")
	second, last := list("limit=10&cursor=" + url.QueryEscape(next))
	if first != "a dir/1" || second != "dir/2 dir/sub/3 dirt" || last != "" {
		t.Errorf("pages: %s | %s | %s", first, second, last)
	}
	for _, query := range []string{"limit=5000", "limit=x", "path=../a", "group_name=h"} {
		values, _ := url.ParseQuery("group_name=g&" + query)
		w.ask(http.MethodGet, "/vfs/list", values, nil).want(t, query, http.StatusBadRequest, "1001")
	}
}

func TestStrangersAreKeptOut(t *testing.T) {
	w := serve(t)
	w.put("f", "alice's").want(t, "put", http.StatusOK, "")
	for what, got := range map[string]answer{ // as from a group that nobody has written to
		"read":   w.get("f", "Authorization", "mallory"),
		"chunks": w.ask(http.MethodGet, "/vfs/chunks", at("f"), nil, "Authorization", "mallory"),
	} {
		got.want(t, what, http.StatusNotFound, "4003")
	}
	if got := w.ask(http.MethodGet, "/vfs/list", url.Values{"group_name": {"g"}}, nil, "Authorization", "mallory"); got.status != http.StatusOK || !strings.Contains(string(got.body), `"files":[]`) {
		t.Errorf("list: %d %s", got.status, got.body)
	}
	for what, got := range map[string]answer{
		"write":  w.put("f", "x", "Authorization", "mallory"),
		"delete": w.ask(http.MethodDelete, "/vfs/delete", at("f"), nil, "Authorization", "mallory"),
		"policy": w.put("f", "x", "Authorization", "observer"),
		"mirror": w.ask(http.MethodPut, "/vfs/upload", url.Values{"group_name": {"cap"}, "path": {"climate/cap.json"}}, strings.NewReader("{}")),
	} {
		got.want(t, what, http.StatusForbidden, "4004")
	}
	got := w.get("f", "Authorization", "")
	got.want(t, "nobody", http.StatusUnauthorized, "2001")
	if got.header.Get("WWW-Authenticate") == "" {
		t.Error("nobody is told how to authenticate")
	}
}

func TestOtherMethodsAndPathsAreRefused(t *testing.T) {
	w := serve(t)
	for path, methods := range map[string]string{
		"/vfs/upload": "GET", "/vfs/download": "POST", "/vfs/list": "DELETE", "/vfs/chunks": "PUT", "/vfs/delete": "GET", "/vfs/health": "POST", "/vfs/sync": "GET",
	} {
		got := w.ask(methods, path, nil, nil)
		if got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") == "" {
			t.Errorf("%s %s: %d", methods, path, got.status)
		}
	}
	w.ask(http.MethodGet, "/vfs/other", nil, nil).want(t, "another path", http.StatusNotFound, "3001")
}

func TestDeltasThatMakeNoSenseAreRefused(t *testing.T) {
	w := serve(t)
	w.put("f", "content").want(t, "put", http.StatusOK, "")
	for what, c := range map[string]struct {
		query  string
		status int
		code   string
	}{
		"no version":            {"keep=0-0", http.StatusBadRequest, "1001"},
		"a version that is not": {"keep=0-0&base=x", http.StatusBadRequest, "1001"},
		"no runs":               {"base=1", http.StatusBadRequest, "1001"},
		"runs backwards":        {"base=1&keep=4-2", http.StatusBadRequest, "1001"},
		"no size":               {"base=1&keep=0-0", http.StatusBadRequest, "1001"},
		"a version too old":     {"base=1&keep=0-0&size=7&checksum=" + strings.Repeat("ab", 32), http.StatusNotFound, "4003"},
		"twice":                 {"base=1&base=2&keep=0-0", http.StatusBadRequest, "1001"},
	} {
		values, err := url.ParseQuery("group_name=g&path=f&" + c.query)
		if err != nil {
			t.Fatal(err)
		}
		w.ask(http.MethodPut, "/vfs/upload", values, strings.NewReader("x")).want(t, what, c.status, c.code)
	}
	w.get("f").want(t, "the file", http.StatusOK, "")
	w.ask(http.MethodGet, "/vfs/chunks", url.Values{"group_name": {"g"}, "path": {"none"}}, nil).want(t, "no file", http.StatusNotFound, "4003")
	if got := w.ask(http.MethodGet, "/vfs/chunks", at("f"), nil); got.status != http.StatusOK || len(got.body) != 32 {
		t.Errorf("chunks: %d, %d bytes", got.status, len(got.body))
	}
}

func TestASlowUploadIsGivenUp(t *testing.T) {
	var same *vfs.Service
	w := serve(t, func(o *filesdoor.Options) { o.Patience, same = 100*time.Millisecond, o.Service })
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT /vfs/upload?group_name=g&path=f HTTP/1.1\r\nHost: x\r\nAuthorization: alice\r\nContent-Length: 1000\r\n\r\nhalf")
	_ = conn.SetReadDeadline(time.Now().Add(eventually.Patience))
	reply, err := io.ReadAll(conn) // until the server hangs up
	if err != nil || strings.HasPrefix(string(reply), "HTTP/1.1 200") {
		t.Fatalf("%q, %v", reply, err)
	}
	patient := serve(t, func(o *filesdoor.Options) { o.Service = same })
	patient.get("f").want(t, "afterwards", http.StatusNotFound, "4003")
}

// A turning is a body and an answer at once, behind whose first piece something
// happens.
type turning struct {
	*httptest.ResponseRecorder
	pieces []string
	then   func()
}

// Read implements [io.Reader].
func (x *turning) Read(p []byte) (int, error) {
	if len(x.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, x.pieces[0])
	x.pieces = x.pieces[1:]
	if len(x.pieces) == 0 {
		x.then()
	}
	return n, nil
}

// Write implements [io.Writer].
func (x *turning) Write(p []byte) (int, error) {
	x.then()
	return x.ResponseRecorder.Write(p)
}

func TestWhatARevokedCredentialBeganEnds(t *testing.T) {
	var authority granttest.Authority
	w := serve(t, func(o *filesdoor.Options) { o.Grants = &authority })
	w.put("large", strings.Repeat("x", 1<<20)).want(t, "before", http.StatusOK, "")
	try := func(method, target string, pieces ...string) *httptest.ResponseRecorder {
		authority.End("alice", nil)
		x := &turning{httptest.NewRecorder(), pieces, func() {
			authority.End("alice", protocol.Errorf(protocol.CredentialInvalid, "revoked"))
		}}
		r := httptest.NewRequest(method, target, x)
		r.Header.Set("Authorization", "alice")
		w.Config.Handler.ServeHTTP(x, r)
		return x.ResponseRecorder
	}
	if a := try(http.MethodPut, "/vfs/upload?group_name=g&path=f", "first", "second"); a.Code != http.StatusUnauthorized {
		t.Errorf("an upload: %d %s", a.Code, a.Body)
	}
	if a := try(http.MethodGet, "/vfs/download?group_name=g&path=large"); a.Code != http.StatusOK || a.Body.Len() == 0 || a.Body.Len() > 512<<10 {
		t.Errorf("a download: %d, %d bytes", a.Code, a.Body.Len())
	}
	authority.End("alice", nil)
	w.get("f").want(t, "afterwards", http.StatusNotFound, "4003")
}

func TestHealthIsAsTheProtocolHasIt(t *testing.T) {
	w := serve(t)
	w.put("f", strings.Repeat("x", 1<<20)).want(t, "put", http.StatusOK, "")
	got := w.ask(http.MethodGet, "/vfs/health", nil, nil)
	var health filesdoor.HealthResult
	if err := json.Unmarshal([]byte(got.body), &health); err != nil || health.Status != "healthy" || health.Version != protocol.Version ||
		health.Details.Used != "1.0MB" || health.Details.UsedBytes != 1<<20 || health.Timestamp == 0 {
		t.Fatalf("%s, %v", got.body, err)
	}
}

func TestStalledTransfersOfOneKeepNobodyElseOut(t *testing.T) {
	w := serve(t, func(o *filesdoor.Options) { o.Transfers, o.Queue = 16, time.Nanosecond })
	w.put("f", "text").want(t, "before", http.StatusOK, "")
	var stalled sync.WaitGroup
	var ends []*io.PipeWriter
	for i := range 4 { // a quarter
		body, end := io.Pipe()
		ends = append(ends, end)
		stalled.Go(func() {
			r := httptest.NewRequest(http.MethodPut, "/vfs/upload?group_name=g&path="+fmt.Sprint(i), body)
			r.Header.Set("Authorization", "alice")
			a := httptest.NewRecorder()
			w.Config.Handler.ServeHTTP(a, r)
			if a.Code != http.StatusOK {
				t.Errorf("an upload that came late: %d %s", a.Code, a.Body)
			}
		})
		_, _ = io.WriteString(end, "x") // returns when it was read
	}
	for _, who := range []string{"bob", "carol"} {
		own := url.Values{"group_name": {who}, "path": {"f"}}
		w.ask(http.MethodPut, "/vfs/upload", own, strings.NewReader("text"), "Authorization", who).want(t, who+"'s upload", http.StatusOK, "")
		w.ask(http.MethodGet, "/vfs/download", own, nil, "Authorization", who).want(t, who+"'s download", http.StatusOK, "")
	}
	w.get("f").want(t, "one more of alice's", http.StatusServiceUnavailable, "4008")
	for _, end := range ends {
		_ = end.Close()
	}
	stalled.Wait()
	w.get("f").want(t, "afterwards", http.StatusOK, "")
}

// Who names a file to copy must be one who may read it; what the checksum is, is
// no right.
func TestACopyNeedsTheRightToRead(t *testing.T) {
	w := serve(t)
	secret := w.put("secret", "alice's").file(t)
	w.ask(http.MethodPut, "/vfs/upload", url.Values{"group_name": {"m"}, "path": {"f"}}, strings.NewReader("x"), "Authorization", "mallory").
		want(t, "a group of her own", http.StatusOK, "")
	copied := func(group, path string, headers ...string) answer {
		return w.ask(http.MethodPut, "/vfs/upload", url.Values{
			"group_name": {group}, "path": {path}, "copy_of": {"secret"}, "copy_version": {fmt.Sprint(secret.Version)},
			"size": {fmt.Sprint(secret.Size)}, "checksum": {secret.Checksum},
		}, nil, headers...)
	}
	copied("g", "g").want(t, "by its owner", http.StatusOK, "")
	if got := w.get("g"); got.body != "alice's" {
		t.Errorf("%d %s", got.status, got.body)
	}
	copied("m", "g", "Authorization", "mallory").want(t, "into another group", http.StatusNotFound, "4003")
	copied("g", "h", "Authorization", "mallory").want(t, "in a group of somebody else", http.StatusForbidden, "4004")
	for what, query := range map[string]string{
		"no version": "copy_of=secret", "no file": "copy_version=1", "version 0": "copy_of=secret&copy_version=0",
		"with chunks": "copy_of=secret&copy_version=1&base=1&keep=0-0", "a way out": "copy_of=../secret&copy_version=1",
	} {
		values, err := url.ParseQuery("group_name=g&path=i&" + query)
		if err != nil {
			t.Fatal(err)
		}
		w.ask(http.MethodPut, "/vfs/upload", values, nil).want(t, what, http.StatusBadRequest, "1001")
	}
}
