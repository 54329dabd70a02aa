package http

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	guard, err := NewGuard(GuardOptions{Hosts: []string{"Bridge.example"}, Origins: []string{"https://console.example", "http://dev.example:3000"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		method, host, origin, site string
		tls, old                   bool   // old is HTTP/1.0
		reason                     string // "" passes
	}{
		"loopback name":                  {host: "localhost:9010"},
		"loopback address":               {host: "127.0.0.1:9010"},
		"loopback address, 6":            {host: "[::1]:9010"},
		"loopback address, 6, no port":   {host: "[::1]"},
		"name under localhost":           {host: "bridge.localhost:9010"},
		"any address":                    {host: "192.168.1.20:9010"},
		"configured name":                {host: "bridge.example"},
		"configured name, other case":    {host: "BRIDGE.EXAMPLE:9010"},
		"configured name with root dot":  {host: "bridge.example.:9010"},
		"rebound name":                   {host: "evil.example:9010", reason: "host"},
		"loopback name as a prefix":      {host: "localhost.evil.example", reason: "host"},
		"address as a prefix":            {host: "127.0.0.1.evil.example", reason: "host"},
		"configured name as a suffix":    {host: "xbridge.example", reason: "host"},
		"empty host":                     {host: "", reason: "host"},
		"balancer that names no host":    {old: true},
		"balancer that names another":    {host: "evil.example", old: true, reason: "host"},
		"write that names no host":       {method: "POST", old: true, reason: "host"},
		"page elsewhere without host":    {origin: "https://evil.example", old: true, reason: "origin"},
		"malformed host":                 {host: "a:b:c", reason: "host"},
		"own page":                       {method: "POST", host: "localhost:9010", origin: "http://localhost:9010"},
		"own page, default port":         {method: "POST", host: "bridge.example", origin: "http://bridge.example:80"},
		"own page behind a TLS proxy":    {method: "POST", host: "bridge.example", origin: "https://bridge.example"},
		"own page over TLS":              {method: "POST", host: "bridge.example", origin: "https://bridge.example", tls: true},
		"plain page to encrypted bridge": {method: "POST", host: "bridge.example", origin: "http://bridge.example", tls: true, reason: "origin"},
		"page on another port":           {method: "POST", host: "localhost:9010", origin: "http://localhost:3000", reason: "origin"},
		"page of another name":           {method: "POST", host: "localhost:9010", origin: "http://127.0.0.1:9010", reason: "origin"},
		"page elsewhere":                 {method: "POST", host: "localhost:9010", origin: "https://evil.example", reason: "origin"},
		"page elsewhere reading":         {method: "GET", host: "localhost:9010", origin: "https://evil.example", reason: "origin"},
		"page elsewhere, zero address":   {method: "POST", host: "0.0.0.0:9010", origin: "https://evil.example", reason: "origin"},
		"sandboxed page":                 {method: "POST", host: "localhost:9010", origin: "null", reason: "origin"},
		"origin with a path":             {method: "POST", host: "localhost:9010", origin: "http://localhost:9010/x", reason: "origin"},
		"extension":                      {method: "POST", host: "localhost:9010", origin: "chrome-extension://abc", reason: "origin"},
		"configured origin":              {method: "POST", host: "localhost:9010", origin: "https://console.example"},
		"configured origin, port":        {method: "POST", host: "localhost:9010", origin: "http://dev.example:3000"},
		"configured origin, other port":  {method: "POST", host: "localhost:9010", origin: "http://dev.example:3001", reason: "origin"},
		"configured origin, scheme":      {method: "POST", host: "localhost:9010", origin: "http://console.example", reason: "origin"},
		"cross-site without origin":      {method: "POST", host: "localhost:9010", site: "cross-site", reason: "origin"},
		"same-site without origin":       {method: "POST", host: "localhost:9010", site: "same-site", reason: "origin"},
		"link followed from elsewhere":   {method: "GET", host: "localhost:9010", site: "cross-site"},
		"typed by the user":              {method: "POST", host: "localhost:9010", site: "none"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = c.host
		if c.method != "" {
			r.Method = c.method
		}
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		if c.old {
			r.Proto, r.ProtoMinor = "HTTP/1.0", 0
		}
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		got := ""
		if err := guard.Check(r); err != nil {
			got, _ = err.Details["reason"].(string)
		}
		if got != c.reason {
			t.Errorf("%s: refused for %q, want %q", name, got, c.reason)
		}
	}
}

func TestGuardRefusesTwoOrigins(t *testing.T) {
	t.Parallel()
	guard, _ := NewGuard(GuardOptions{})
	r := httptest.NewRequest("POST", "http://localhost:9010/", nil)
	r.Header["Origin"] = []string{"http://localhost:9010", "https://evil.example"}
	if guard.Check(r) == nil {
		t.Error("passed")
	}
}

func TestGuardStandsBeforeEverything(t *testing.T) {
	t.Parallel()
	router := &scripted{}
	_, server := serve(t, Options{Router: router})
	for _, path := range []string{"/", "/healthz", "/openapi.json", "/api/v1/commands", "/ws", "/nothing"} {
		if got := do(t, server, "GET", path, "", "Host", "evil.example"); got.status != http.StatusForbidden || got.code(t) != "2003" {
			t.Errorf("GET %s for another host: %d %s", path, got.status, got.body)
		}
	}
	if got := do(t, server, "POST", "/api/v1/commands/test.echo", "{}", "Origin", "https://evil.example"); got.status != http.StatusForbidden {
		t.Errorf("POST from another origin: %d", got.status)
	}
	if router.reached() != 0 {
		t.Error("a refused request reached the router")
	}
}

func TestPagesOfThisMachineMayBeLetIn(t *testing.T) {
	t.Parallel()
	guard, err := NewGuard(GuardOptions{LoopbackOrigins: true})
	if err != nil {
		t.Fatal(err)
	}
	for origin, want := range map[string]bool{
		"http://localhost:3000": true, "https://localhost:3000": true, "http://127.0.0.1:5173": true, "http://127.1.2.3": true,
		"http://[::1]:8080": true, "http://app.localhost:3000": true,
		"http://localhost.evil.example": false, "http://127.0.0.1.evil.example": false, "http://192.168.1.20": false,
		"https://evil.example": false, "null": false, "file://": false, "chrome-extension://localhost": false, "http://localhost:3000/x": false,
	} {
		r := httptest.NewRequest("POST", "http://localhost:9010/", nil)
		r.Header.Set("Origin", origin)
		if passes := guard.Check(r) == nil; passes != want {
			t.Errorf("%s passes: %v", origin, passes)
		}
	}
}

// Whoever wrote a page that is refused reads in the log what admits it, and a
// page that tries again and again does not fill the log.
func TestTheLogSaysWhatAdmitsAPage(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	guard, err := NewGuard(GuardOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	handler := guard.Wrap(http.NotFoundHandler())
	for range 100 {
		r := httptest.NewRequest("POST", "http://localhost:9010/", nil)
		r.Header.Set("Origin", "https://console.example")
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	if told := log.String(); strings.Count(told, "\n") != 1 || !strings.Contains(told, `admitted_by="origins: [https://console.example]"`) {
		t.Errorf("the log says %s", told)
	}
}
