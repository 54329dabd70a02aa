package s3_test

import (
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/doors/files/filestest"
	"github.com/aibridge/aibridge/doors/files/s3"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// A world is a VFS behind S3. The secret of every access key is "secret".
type world struct {
	*httptest.Server
	*filestest.House
	t   testing.TB
	now time.Time
}

func serve(t testing.TB) *world {
	t.Helper()
	w := &world{House: filestest.New(64 << 20), t: t, now: time.Now()}
	door, err := s3.New(s3.Options{
		Files: w.Handler(t, filestest.Nobody), Anonymous: filestest.Nobody, Spool: t.TempDir(), Room: func() int64 { return -1 }, Now: func() time.Time { return w.now },
		Authenticate: func(_ *http.Request, access string, check func(string) bool) (*protocol.Principal, error) {
			if !check("secret") {
				return nil, protocol.Errorf(protocol.CredentialInvalid, "the credential is not valid")
			}
			return filestest.Party(access, "-"), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Server = filestest.Serve(t, door)
	return w
}

// ask sends a signed request: as alice, unless a header says otherwise. Change may
// alter it after it was signed.
func (w *world) ask(method, path, body string, change func(*http.Request), headers ...string) filestest.Answer {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	access, secret := "alice", "secret"
	for i := 0; i+1 < len(headers); i += 2 {
		switch headers[i] {
		case "As":
			access = headers[i+1]
		case "With":
			secret = headers[i+1]
		default:
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	if r.Header.Get("X-Amz-Content-Sha256") == "" {
		r.Header.Set("X-Amz-Content-Sha256", s3.Sum(body))
	}
	s3.Sign(r, access, secret, w.now)
	if change != nil {
		change(r)
	}
	return filestest.Send(w.t, r)
}

// must fails unless the answer has a status, and text in its body.
func (w *world) must(status int, has, method, path, body string, headers ...string) filestest.Answer {
	w.t.Helper()
	return w.ask(method, path, body, nil, headers...).Is(w.t, status, has, method, path, headers)
}

// The example of the specification has the signature that it says.
func TestTheSignatureIsThatOfTheSpecification(t *testing.T) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://examplebucket.s3.amazonaws.com/test.txt", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Range", "bytes=0-9")
	r.Header.Set("X-Amz-Content-Sha256", s3.Sum(""))
	s3.Sign(r, "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC), "range")
	if got := r.Header.Get("Authorization"); !strings.HasSuffix(got, "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41") {
		t.Errorf("it is %s", got)
	}
}

func TestObjectsAreFiles(t *testing.T) {
	w := serve(t)
	w.must(404, "NoSuchBucket", "GET", "/s3/docs", "")
	w.must(200, "", "PUT", "/s3/docs", "")
	w.must(200, "<Name>docs</Name>", "GET", "/s3/", "")
	put := w.must(200, "", "PUT", "/s3/docs/a%20b/c%2Bd", "hello", "Content-Type", "text/plain", "X-Amz-Meta-Mtime", "1700000000.5")
	w.must(200, "", "PUT", "/s3/docs/a%20b/c%2Bd", "hello again")
	got := w.must(200, "hello again", "GET", "/s3/docs/a%20b/c%2Bd", "")
	old := w.must(200, "hello", "GET", "/s3/docs/a%20b/c%2Bd?versionId="+put.Header.Get("X-Amz-Version-Id"), "")
	if old.Body != "hello" || old.Header.Get("X-Amz-Meta-Mtime") != "1700000000.500" || old.Header.Get("Etag") != put.Header.Get("Etag") {
		t.Errorf("the version is %q, %v", old.Body, old.Header)
	}
	w.must(206, "ell", "GET", "/s3/docs/a%20b/c%2Bd", "", "Range", "bytes=1-3")
	w.must(416, "", "GET", "/s3/docs/a%20b/c%2Bd", "", "Range", "bytes=999999999999-")
	w.must(412, "PreconditionFailed", "PUT", "/s3/docs/a%20b/c%2Bd", "x", "If-None-Match", "*")
	w.must(412, "PreconditionFailed", "PUT", "/s3/docs/a%20b/c%2Bd", "x", "If-Match", put.Header.Get("Etag"))
	w.must(200, "", "PUT", "/s3/docs/a%20b/c%2Bd", "third", "If-Match", got.Header.Get("Etag"))
	w.must(200, "CopyObjectResult", "PUT", "/s3/docs/copy", "", "X-Amz-Copy-Source", "/docs/a%20b/c%2Bd?versionId="+put.Header.Get("X-Amz-Version-Id"))
	w.must(200, "hello", "GET", "/s3/docs/copy", "")
	w.must(200, "", "PUT", "/s3/docs/empty/", "")
	list := w.must(200, "<Key>copy</Key>", "GET", "/s3/docs?list-type=2&delimiter=%2F", "")
	if strings.Count(list.Body, "<CommonPrefixes>") != 2 || strings.Contains(list.Body, ".folder") || strings.Contains(list.Body, "c+d") {
		t.Errorf("the list is %s", list.Body)
	}
	first := w.must(200, "<IsTruncated>true</IsTruncated>", "GET", "/s3/docs?list-type=2&max-keys=1", "")
	var page struct{ NextContinuationToken string }
	if err := xml.Unmarshal([]byte(first.Body), &page); err != nil {
		t.Fatal(err)
	}
	w.must(200, "<Key>copy</Key>", "GET", "/s3/docs?list-type=2&max-keys=1&continuation-token="+page.NextContinuationToken, "")
	gone := w.must(204, "", "DELETE", "/s3/docs/copy", "")
	w.must(204, "", "DELETE", "/s3/docs/copy", "")
	w.must(404, "NoSuchKey", "GET", "/s3/docs/copy", "")
	versions := w.must(200, "<VersionId>"+gone.Header.Get("X-Amz-Version-Id")+"</VersionId>", "GET", "/s3/docs?versions", "")
	if strings.Count(versions.Body, "<Version>") != 5 || strings.Count(versions.Body, "<DeleteMarker>") != 1 {
		t.Errorf("the versions are %s", versions.Body)
	}
	w.must(409, "BucketNotEmpty", "DELETE", "/s3/docs", "")
	w.must(200, "<Deleted>", "POST", "/s3/docs?delete", `<Delete><Object><Key>a b/c+d</Key></Object><Object><Key>empty/</Key></Object><Object><Key>../x</Key></Object></Delete>`)
	w.must(204, "", "DELETE", "/s3/docs", "")
	w.must(404, "", "HEAD", "/s3/docs", "")
}

func TestAnObjectComesInParts(t *testing.T) {
	w := serve(t)
	begin := func(path string) string {
		t.Helper()
		var made struct{ UploadId string }
		if err := xml.Unmarshal([]byte(w.must(200, "", "POST", path+"?uploads=", "").Body), &made); err != nil {
			t.Fatal(err)
		}
		return made.UploadId
	}
	w.must(200, "", "PUT", "/s3/b/source", "0123456789")
	id := begin("/s3/b/f")
	part := func(number int, body string, headers ...string) string {
		t.Helper()
		a := w.must(200, "", "PUT", fmt.Sprintf("/s3/b/f?partNumber=%d&uploadId=%s", number, id), body, headers...)
		if tag := a.Header.Get("Etag"); tag != "" {
			return tag
		}
		_, rest, _ := strings.Cut(a.Body, "<ETag>&#34;")
		tag, _, _ := strings.Cut(rest, "&#34;")
		return tag
	}
	part(1, "replaced below")
	two, three, one := part(2, "two "), part(7, "", "X-Amz-Copy-Source", "b/source", "X-Amz-Copy-Source-Range", "bytes=2-4"), part(1, "one ")
	w.must(404, "NoSuchKey", "GET", "/s3/b/f", "")
	w.must(200, "<PartNumber>7</PartNumber>", "GET", "/s3/b/f?uploadId="+id, "")
	w.must(200, id, "GET", "/s3/b?uploads", "")
	complete := func(parts ...any) string {
		text := "<CompleteMultipartUpload>"
		for i := 0; i < len(parts); i += 2 {
			text += fmt.Sprintf("<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", parts[i], parts[i+1])
		}
		return text + "</CompleteMultipartUpload>"
	}
	w.must(403, "AccessDenied", "POST", "/s3/b/f?uploadId="+id, complete(1, one), "As", "bob")
	w.must(404, "NoSuchUpload", "POST", "/s3/b/f?uploadId="+id, complete(1, one), "As", "acme-alice")
	w.must(404, "NoSuchUpload", "POST", "/s3/b/other?uploadId="+id, complete(1, one))
	w.must(400, "InvalidPartOrder", "POST", "/s3/b/f?uploadId="+id, complete(2, two, 1, one))
	w.must(400, "InvalidPart", "POST", "/s3/b/f?uploadId="+id, complete(1, two))
	w.must(200, "CompleteMultipartUploadResult", "POST", "/s3/b/f?uploadId="+id, complete(1, one, 2, two, 7, three))
	w.must(200, "one two 234", "GET", "/s3/b/f", "")
	w.must(404, "NoSuchUpload", "POST", "/s3/b/f?uploadId="+id, complete(1, one))
	id = begin("/s3/b/f")
	w.must(204, "", "DELETE", "/s3/b/f?uploadId="+id, "")
	w.must(404, "NoSuchUpload", "PUT", "/s3/b/f?partNumber=1&uploadId="+id, "x")
	for range 64 {
		begin("/s3/b/many")
	}
	w.must(503, "SlowDown", "POST", "/s3/b/many?uploads=", "")
}

func TestWhatIsNotSignedIsRefused(t *testing.T) {
	w := serve(t)
	w.must(200, "", "PUT", "/s3/g/f", "x")
	for what, c := range map[string]struct {
		code    string
		change  func(*http.Request)
		headers []string
	}{
		"another secret":       {"SignatureDoesNotMatch", nil, []string{"With", "guess"}},
		"no signature":         {"AccessDenied", func(r *http.Request) { r.Header.Del("Authorization") }, nil},
		"another object":       {"SignatureDoesNotMatch", func(r *http.Request) { r.URL.Path = "/s3/g/other" }, nil},
		"another method":       {"SignatureDoesNotMatch", func(r *http.Request) { r.Method = "DELETE" }, nil},
		"another body":         {"XAmzContentSHA256Mismatch", nil, []string{"X-Amz-Content-Sha256", s3.Sum("another")}},
		"a parameter":          {"SignatureDoesNotMatch", func(r *http.Request) { r.URL.RawQuery = "uploads" }, nil},
		"a header":             {"AccessDenied", func(r *http.Request) { r.Header.Set("X-Amz-Copy-Source", "g/f") }, nil},
		"two signatures":       {"InvalidArgument", func(r *http.Request) { r.URL.RawQuery = "X-Amz-Signature=x" }, nil},
		"a day ago":            {"RequestTimeTooSkewed", func(r *http.Request) { s3.Sign(r, "alice", "secret", w.now.Add(-24*time.Hour)) }, nil},
		"tomorrow":             {"RequestTimeTooSkewed", func(r *http.Request) { s3.Sign(r, "alice", "secret", w.now.Add(24*time.Hour)) }, nil},
		"a false checksum":     {"BadDigest", nil, []string{"X-Amz-Checksum-Crc32", "AAAAAA=="}},
		"a false MD5":          {"BadDigest", nil, []string{"Content-Md5", "AAAAAAAAAAAAAAAAAAAAAA=="}},
		"chunks that are none": {"IncompleteBody", nil, []string{"X-Amz-Content-Sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "X-Amz-Decoded-Content-Length", "3"}},
		"a forged chunk": {"SignatureDoesNotMatch", func(r *http.Request) {
			body := "3;chunk-signature=" + strings.Repeat("0", 64) + "\r\nxyz\r\n0;chunk-signature=" + strings.Repeat("0", 64) + "\r\n\r\n"
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		}, []string{"X-Amz-Content-Sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "X-Amz-Decoded-Content-Length", "3"}},
		"a trailer that is missing": {"MalformedTrailerError", func(r *http.Request) {
			body := "3\r\nxyz\r\n0\r\n\r\n"
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		}, []string{"X-Amz-Content-Sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "X-Amz-Decoded-Content-Length", "3", "X-Amz-Trailer", "x-amz-checksum-crc32"}},
	} {
		if a := w.ask("PUT", "/s3/g/f", "replaced", c.change, c.headers...); a.Status < 400 || !strings.Contains(a.Body, "<Code>"+c.code+"</Code>") {
			t.Errorf("%s: %d %s, want %s", what, a.Status, a.Body, c.code)
		}
	}
	w.must(200, "x", "GET", "/s3/g/f", "")
	w.must(404, "NoSuchKey", "GET", "/s3/g/other", "")
}

func TestBucketsOfOthersAreHiddenAndPathsConfined(t *testing.T) {
	w := serve(t)
	w.must(200, "", "PUT", "/s3/secret/f", "x")
	for _, who := range []string{"bob", "acme-alice"} {
		w.must(404, "", "HEAD", "/s3/secret", "", "As", who)
		w.must(404, "NoSuchBucket", "GET", "/s3/secret", "", "As", who)
		w.must(404, "NoSuchKey", "GET", "/s3/secret/f", "", "As", who)
		w.must(404, "NoSuchKey", "PUT", "/s3/mine/f", "", "As", who, "X-Amz-Copy-Source", "secret/f")
	}
	w.must(403, "AccessDenied", "PUT", "/s3/secret/f", "mine", "As", "bob")
	for _, key := range []string{"%2e%2e/x", "..%2fx", "a//b", "a%00b", "a%5cb", "%ff", "con", "%e2%80%aea", ".folder", "a/%2e/b", strings.Repeat("a/", 600) + "b"} {
		if a := w.ask("PUT", "/s3/secret/"+key, "x", nil); a.Status != 400 || !strings.Contains(a.Body, "InvalidArgument") {
			t.Errorf("%s: %d %s", key, a.Status, a.Body)
		}
	}
	w.must(400, "MalformedXML", "POST", "/s3/secret?delete", `<!DOCTYPE a [<!ENTITY b "c">]><Delete><Object><Key>&b;</Key></Object></Delete>`)
	w.must(501, "NotImplemented", "GET", "/s3/secret?acl", "")
	if a := w.ask("GET", "/s3/secret", "", func(r *http.Request) { r.URL.RawQuery = "prefix=a&prefix=b" }); !strings.Contains(a.Body, "InvalidArgument") {
		t.Errorf("a parameter twice: %d %s", a.Status, a.Body)
	}
}

// TestAListGoesOnBehindItsOwnPrefix begins where a client says that begins in the
// folder that it lists.
func TestAListGoesOnBehindItsOwnPrefix(t *testing.T) {
	t.Parallel()
	w := serve(t)
	for _, path := range []string{"/s3/photos", "/s3/photos/a/x", "/s3/photos/a/y"} {
		if got := w.ask(http.MethodPut, path, "", nil); got.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	got := w.ask(http.MethodGet, "/s3/photos?delimiter=%2F&list-type=2&prefix=a%2F&start-after=a%2F", "", nil)
	if !strings.Contains(got.Body, "<Key>a/x</Key>") || !strings.Contains(got.Body, "<Key>a/y</Key>") {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

// TestRefusalsAreNotLogged keeps anybody from filling the log with requests that
// are refused in the words of S3.
func TestRefusalsAreNotLogged(t *testing.T) {
	t.Parallel()
	w := serve(t)
	if got := w.ask(http.MethodGet, "/s3/nothere?list-type=2", "", nil); got.Status != http.StatusNotFound || !strings.Contains(got.Body, "NoSuchBucket") {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	w.Close() // no request is under way any more
	if text := w.Logged(); text != "" {
		t.Errorf("logged %s", text)
	}
}

func TestRcloneKeepsBucketsEqual(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("rclone")
	if err != nil {
		t.Skip("rclone is not installed")
	}
	w := serve(t)
	here := filepath.Join(t.TempDir(), "here")
	rclone := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), path, append([]string{"--config", "", "--retries", "1", "--low-level-retries", "1"}, args...)...)
		cmd.Env = append(os.Environ(), "RCLONE_CONFIG_S3_TYPE=s3", "RCLONE_CONFIG_S3_PROVIDER=Other", "RCLONE_CONFIG_S3_ACCESS_KEY_ID=alice",
			"RCLONE_CONFIG_S3_SECRET_ACCESS_KEY=secret", "RCLONE_CONFIG_S3_ENDPOINT="+w.URL+"/s3", "AWS_CA_BUNDLE=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("rclone %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	for name, size := range map[string]int{"a": 1, "b/empty": 0, "b/c/d é ü+": 3000, "b/large": 11 << 20} {
		file := filepath.Join(here, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.Repeat("x", size)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rclone("sync", "--s3-upload-cutoff", "5M", "--s3-chunk-size", "5M", here, "s3:tree")
	rclone("check", "--download", here, "s3:tree")
	if out := rclone("sync", "-v", "--modify-window", "1ms", here, "s3:tree"); !strings.Contains(out, "nothing to transfer") {
		t.Errorf("another sync: %s", out)
	}
	rclone("move", "s3:tree/b", "s3:moved")
	rclone("check", "--download", filepath.Join(here, "b"), "s3:moved")
	rclone("delete", "--rmdirs", "s3:moved")
	if out := rclone("lsf", "s3:tree"); out != "a\n" {
		t.Errorf("there is %q", out)
	}
}

func FuzzQuery(f *testing.F) {
	f.Add("a=b&c", "AWS4-HMAC-SHA256 Credential=a/20260102/r/s3/aws4_request,SignedHeaders=host,Signature="+hex.EncodeToString(make([]byte, 32)))
	f.Add("X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=1", "")
	f.Add("%zz", "AWS4-HMAC-SHA256 =,,=")
	f.Fuzz(func(t *testing.T, query, authorization string) {
		if access, err := s3.ReadSignature(query, authorization); err == nil && access == "" && authorization != "" {
			t.Errorf("%q with %q is signed by nobody", query, authorization)
		}
	})
}

func FuzzChunks(f *testing.F) {
	f.Add("3\r\nxyz\r\n0\r\nx-amz-checksum-crc32:6w2R9w==\r\n\r\n", int64(3))
	f.Add("ffffffffffffffff\r\n", int64(1))
	f.Add("0\r\n\r\n", int64(0))
	f.Fuzz(func(t *testing.T, body string, size int64) {
		if n, err := s3.ReadChunks(body, size); err == nil && n != size {
			t.Errorf("%q has %d bytes, not %d", body, n, size)
		}
	})
}
