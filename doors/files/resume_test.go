package files_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/commands"
	filesdoor "github.com/aibridge/aibridge/doors/files"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// begin begins an upload in parts.
func (w *world) begin(path string, size int, headers ...string) filesdoor.UploadAnswer {
	w.t.Helper()
	query := at(path)
	query.Set("size", fmt.Sprint(size))
	return w.ask(http.MethodPost, "/vfs/uploads", query, nil, headers...).upload(w.t, http.StatusCreated)
}

func (a answer) upload(t testing.TB, status int) (u filesdoor.UploadAnswer) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &u); err != nil || a.status != status || !u.Success {
		t.Fatalf("%d %s", a.status, a.body)
	}
	return u
}

func (w *world) part(id string, offset int64, body io.Reader, headers ...string) answer {
	w.t.Helper()
	return w.ask(http.MethodPatch, "/vfs/uploads/"+id, url.Values{"offset": {fmt.Sprint(offset)}}, body, headers...)
}

func TestAnUploadInPartsIsBegunFollowedAndFinished(t *testing.T) {
	w := serve(t)
	text := strings.Repeat("0123456789abcdef", 100_000) // 1.6 MB
	u := w.begin("big.txt", len(text), "X-Checksum-Sha256", sumOf(text))
	if u.Offset != 0 || u.Step != vfs.UploadStep || u.Path != "big.txt" || u.Expires == 0 {
		t.Errorf("begun: %+v", u)
	}
	short := w.part(u.ID, 0, strings.NewReader(text[:vfs.UploadStep+1000])).upload(t, http.StatusOK)
	if short.Offset != vfs.UploadStep {
		t.Errorf("after a part: %+v", short)
	}
	w.part(u.ID, 0, strings.NewReader("again")).want(t, "the same part", http.StatusConflict, "3003")
	w.ask(http.MethodPost, "/vfs/uploads/"+u.ID+"/finish", nil, nil).want(t, "an early end", http.StatusConflict, "3006")
	w.part(u.ID, vfs.UploadStep, strings.NewReader(text)).want(t, "too much", http.StatusBadRequest, "4002")

	for _, header := range []string{"bob", "observer"} {
		w.ask(http.MethodGet, "/vfs/uploads/"+u.ID, nil, nil, "Authorization", header).want(t, header, http.StatusNotFound, "4003")
		w.part(u.ID, vfs.UploadStep, strings.NewReader("x"), "Authorization", header).want(t, header, http.StatusNotFound, "4003")
		if list := w.ask(http.MethodGet, "/vfs/uploads", nil, nil, "Authorization", header); strings.TrimSpace(list.body) != `{"success":true,"uploads":[]}` {
			t.Errorf("%s is told %s", header, list.body)
		}
	}
	if there := w.ask(http.MethodGet, "/vfs/uploads/"+u.ID, nil, nil).upload(t, http.StatusOK); there.Offset != vfs.UploadStep {
		t.Errorf("asked: %+v", there)
	}
	if list := w.ask(http.MethodGet, "/vfs/uploads", nil, nil); !strings.Contains(list.body, u.ID) {
		t.Errorf("listed: %s", list.body)
	}
	w.part(u.ID, vfs.UploadStep, struct{ io.Reader }{strings.NewReader(text[vfs.UploadStep:])}).upload(t, http.StatusOK) // of unknown length
	done := w.ask(http.MethodPost, "/vfs/uploads/"+u.ID+"/finish", nil, nil)
	if f := done.file(t); f.Size != int64(len(text)) || done.header.Get("Etag") == "" {
		t.Errorf("finished: %s", done.body)
	}
	if got := w.get("big.txt"); got.body != text {
		t.Errorf("%d bytes are there", len(got.body))
	}
	w.ask(http.MethodGet, "/vfs/uploads/"+u.ID, nil, nil).want(t, "a finished one", http.StatusNotFound, "4003")
}

// A key of the same principal that may write other groups alone, or only read, neither
// sees nor touches an upload that another key began.
func TestAnUploadInPartsIsThatOfKeysThatMayWriteItsGroup(t *testing.T) {
	const key = "X-Key"
	w := serve(t, func(o *filesdoor.Options) {
		plain := o.Authenticate
		o.Authenticate = func(r *http.Request) (*protocol.Principal, error) {
			who, err := plain(r)
			who.Credential = r.Header.Get(key)
			return who, err
		}
		o.Authorize = func(_ context.Context, who *protocol.Principal, action string, on commands.Resource) error {
			if who.Credential == "reads" && action != "vfs:read" || who.Credential == "other" && on.ID != "other" {
				return protocol.Errorf(protocol.PermissionDenied, "the key does not allow %s", action)
			}
			return nil
		}
	})
	u := w.begin("report.txt", 3)
	for _, name := range []string{"reads", "other"} {
		path := "/vfs/uploads/" + u.ID
		w.ask(http.MethodGet, path, nil, nil, key, name).want(t, name+" looks", http.StatusForbidden, "4004")
		w.part(u.ID, 0, strings.NewReader("bad"), key, name).want(t, name+" adds", http.StatusForbidden, "4004")
		w.ask(http.MethodPost, path+"/finish", nil, nil, key, name).want(t, name+" finishes", http.StatusForbidden, "4004")
		w.ask(http.MethodDelete, path, nil, nil, key, name).want(t, name+" gives up", http.StatusForbidden, "4004")
		if list := w.ask(http.MethodGet, "/vfs/uploads", nil, nil, key, name); strings.TrimSpace(list.body) != `{"success":true,"uploads":[]}` {
			t.Errorf("%s is told %s", name, list.body)
		}
	}
	if list := w.ask(http.MethodGet, "/vfs/uploads", nil, nil); !strings.Contains(list.body, u.ID) {
		t.Errorf("listed: %s", list.body)
	}
	w.part(u.ID, 0, strings.NewReader("yes")).upload(t, http.StatusOK)
	w.ask(http.MethodDelete, "/vfs/uploads/"+u.ID, nil, nil).upload(t, http.StatusOK)
}

func TestAnUploadInPartsIsHeldToItsConditions(t *testing.T) {
	w := serve(t)
	w.ask(http.MethodPost, "/vfs/uploads", at("x"), nil).want(t, "no size", http.StatusBadRequest, "1001")
	w.ask(http.MethodPost, "/vfs/uploads", url.Values{"group_name": {"g"}, "path": {"x"}, "size": {fmt.Sprint(3 << 20)}}, nil).want(t, "too large", http.StatusRequestEntityTooLarge, "1004")
	w.ask(http.MethodPost, "/vfs/uploads", url.Values{"group_name": {"g"}, "path": {"../x"}, "size": {"1"}}, nil).want(t, "a bad path", http.StatusBadRequest, "1001")
	w.ask(http.MethodPost, "/vfs/uploads", url.Values{"group_name": {"g"}, "path": {"x"}, "size": {"1"}}, nil, "Authorization", "observer").want(t, "an observer", http.StatusForbidden, "4004")

	u := w.begin("new.txt", 3, "If-None-Match", "*")
	w.part(u.ID, 0, strings.NewReader("one")).upload(t, http.StatusOK)
	w.put("new.txt", "two")
	w.ask(http.MethodPost, "/vfs/uploads/"+u.ID+"/finish", nil, nil).want(t, "who comes second", http.StatusPreconditionFailed, "3003")
	w.ask(http.MethodDelete, "/vfs/uploads/"+u.ID, nil, nil).upload(t, http.StatusOK)
	w.ask(http.MethodDelete, "/vfs/uploads/"+u.ID, nil, nil).want(t, "twice", http.StatusNotFound, "4003")

	u = w.begin("sum.txt", 3, "X-Checksum-Sha256", sumOf("one"))
	w.part(u.ID, 0, strings.NewReader("two")).upload(t, http.StatusOK)
	w.ask(http.MethodPost, "/vfs/uploads/"+u.ID+"/finish", nil, nil).want(t, "something else", http.StatusBadRequest, "4002")
	if got := w.get("sum.txt"); got.status != http.StatusNotFound {
		t.Errorf("it is there: %s", got.body)
	}
	w.part(u.ID, 3, bytes.NewReader(nil)).upload(t, http.StatusOK)
	for _, offset := range []string{"", "-1", "x"} {
		w.ask(http.MethodPatch, "/vfs/uploads/"+u.ID, url.Values{"offset": {offset}}, nil).want(t, "offset "+offset, http.StatusBadRequest, "1001")
	}
	w.ask(http.MethodPost, "/vfs/uploads/"+u.ID, nil, nil).want(t, "a wrong method", http.StatusMethodNotAllowed, "1000")
	w.ask(http.MethodGet, "/vfs/uploads/"+u.ID+"/more", nil, nil).want(t, "nothing", http.StatusNotFound, "3001")
}

func sumOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
