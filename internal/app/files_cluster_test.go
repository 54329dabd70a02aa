package app_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
)

// Archivists write the same files at all bridges, by HTTP.
type archivists struct {
	t    *testing.T
	key  string
	http *http.Client
}

// archive starts three bridges with WebDAV, and an operator's key.
func archive(t *testing.T) (url string, n [3]*bridgetest.Node, a archivists) {
	t.Helper()
	url, n[0], n[1], n[2] = trioWith(t, func(c *app.Config) { c.Doors.WebDAV.On = true })
	key := field(t, must(t, n[0].Caller(t, "admin"), "key.create", `{"principal_id":"anna","kind":"operator","roles":["operator"]}`), "key")
	return url, n, archivists{t, key, bridgetest.HTTPClient(t)}
}

// ask sends a request to a bridge.
func (a archivists) ask(n *bridgetest.Node, method, path, body string, headers ...string) (status int, answer string, header http.Header) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), method, n.HTTPURL(path), strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	if strings.HasPrefix(path, "/dav/") {
		r.SetBasicAuth("apikey", a.key)
	} else {
		r.Header.Set("X-API-Key", a.key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := a.http.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return response.StatusCode, string(text), response.Header
}

// must sends a request that is answered by a status.
func (a archivists) must(status int, n *bridgetest.Node, method, path, body string, headers ...string) (answer string, header http.Header) {
	a.t.Helper()
	got, answer, header := a.ask(n, method, path, body, headers...)
	if got != status {
		a.t.Fatalf("%s %s at %s: %d, want %d: %s", method, path, n.Config.ID, got, status, answer)
	}
	return answer, header
}

const lockInfo = `<lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>`

// TestALockOutlivesItsBridge locks a file at a bridge that is then declared dead. The lock
// keeps others out at the other bridges, before and after, and its owner goes on with it
// there: writes, prolongs and ends it.
func TestALockOutlivesItsBridge(t *testing.T) {
	t.Parallel()
	url, n, a := archive(t)
	a.must(201, n[0], "PUT", "/dav/docs/plan", "one")
	_, locked := a.must(200, n[0], "LOCK", "/dav/docs/plan", lockInfo, "Timeout", "Second-600")
	token := locked.Get("Lock-Token")
	a.must(204, n[1], "PUT", "/dav/docs/plan", "two", "If", "("+token+")") // at once
	a.must(423, n[1], "PUT", "/dav/docs/plan", "three")
	a.must(423, n[2], "LOCK", "/dav/docs/plan", lockInfo)

	verdict(t, url, "a")
	_ = n[0].Ended(t)
	a.must(423, n[2], "PUT", "/dav/docs/plan", "three")
	a.must(423, n[1], "DELETE", "/dav/docs", "")
	a.must(204, n[2], "PUT", "/dav/docs/plan", "three", "If", "("+token+")")
	if shown, _ := a.must(200, n[1], "LOCK", "/dav/docs/plan", "", "If", "("+token+")", "Timeout", "Second-900"); !strings.Contains(shown, "Second-900") && !strings.Contains(shown, "Second-899") {
		t.Errorf("the lock is prolonged to %s", shown)
	}
	a.must(204, n[2], "UNLOCK", "/dav/docs/plan", "", "Lock-Token", token)
	a.must(204, n[2], "PUT", "/dav/docs/plan", "four")
	a.must(412, n[1], "PUT", "/dav/docs/plan", "five", "If", "("+token+")")
}

// TestAnUploadInPartsOutlivesItsBridge begins uploads at a bridge that is then declared
// dead, and goes on with them at the others.
func TestAnUploadInPartsOutlivesItsBridge(t *testing.T) {
	t.Parallel()
	url, n, a := archive(t)
	const step = 1 << 20
	whole := strings.Repeat("0123456789abcdef", 3*step/16) + "end"
	begun, header := a.must(201, n[0], "POST", fmt.Sprint("/vfs/uploads?group_name=docs&path=film&size=", len(whole)), "")
	at := header.Get("Location")
	a.must(200, n[0], "PATCH", at+"?offset=0", whole[:step])
	a.must(200, n[1], "PATCH", fmt.Sprint(at, "?offset=", step), whole[step:2*step]) // at once
	verdict(t, url, "a")
	_ = n[0].Ended(t)
	if stands, _ := a.must(200, n[2], "GET", at, ""); !strings.Contains(stands, fmt.Sprintf(`"offset":%d`, 2*step)) {
		t.Fatalf("begun as %s, it stands at %s", begun, stands)
	}
	a.must(200, n[2], "PATCH", fmt.Sprint(at, "?offset=", 2*step), whole[2*step:])
	a.must(200, n[1], "POST", at+"/finish", "")
	if got, _ := a.must(200, n[2], "GET", "/dav/docs/film", ""); got != whole {
		t.Errorf("%d bytes are another content", len(got))
	}
}

// TestAFileIsThereAtOnceAtEveryBridge reads what another bridge has just confirmed.
func TestAFileIsThereAtOnceAtEveryBridge(t *testing.T) {
	t.Parallel()
	_, n, a := archive(t)
	for i := range 60 {
		from, to := n[i%3], n[(i+1)%3]
		file := fmt.Sprint("docs/", i)
		a.must(201, from, "PUT", "/dav/"+file, "text")
		a.must(200, to, "GET", "/dav/"+file, "")
		answer, header := a.must(201, from, "POST", fmt.Sprintf("/vfs/uploads?group_name=parts&path=%d&size=4", i), "")
		if status, text, _ := a.ask(to, "PATCH", header.Get("Location")+"?offset=0", "text"); status != 200 {
			t.Fatalf("%s is %d: %s", answer, status, text)
		}
		a.must(200, from, "POST", header.Get("Location")+"/finish", "")
		a.must(200, to, "GET", fmt.Sprintf("/vfs/download?group_name=parts&path=%d", i), "")
	}
}
