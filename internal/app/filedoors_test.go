package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

func TestFilesByWebDAVAreThoseOfTheKey(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *app.Config) { c.Doors.WebDAV.On = true })
	camera, other := h.key(protocol.KindAgent, "camera", protocol.RoleEndAgent), h.key(protocol.KindAgent, "other", protocol.RoleEndAgent)
	ask := func(method, path, body, user, password string) (int, http.Header) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, h.HTTPURL(path), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			r.SetBasicAuth(user, password)
		}
		response, err := bridgetest.HTTPClient(t).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode, response.Header
	}
	for _, c := range []struct {
		method, path, user, password string
		status                       int
	}{
		{"PUT", "/dav/pictures/1", "apikey", camera, 201},
		{"GET", "/dav/pictures/1", "apikey", camera, 200},
		{"GET", "/dav/pictures/1", "apikey", other, 404},
		{"PUT", "/dav/pictures/1", "apikey", other, 403},
		{"GET", "/dav/pictures/1", "apikey", camera + "x", 401},
		{"GET", "/dav/pictures/1", "", "", 401},
		{"GET", "/s3/pictures/1", "apikey", camera, 404},
	} {
		if status, header := ask(c.method, c.path, "x", c.user, c.password); status != c.status || status == 401 && !strings.HasPrefix(header.Get("WWW-Authenticate"), "Basic") {
			t.Errorf("%s %s as %.12s: %d, want %d", c.method, c.path, c.password, status, c.status)
		}
	}
	if code, body := h.run(camera, "vfs.list", `{"group_name":"pictures"}`); code != "" || strings.Count(body, `"path"`) != 1 {
		t.Errorf("listed are %s %s", code, body)
	}
	if !h.wasAudited(`{"event":"vfs.put"}`) || !h.wasAudited(`{"event":"vfs.refused"}`) {
		t.Error("the writes are not in the audit trail")
	}
}
