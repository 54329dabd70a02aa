package http

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

func TestTheStartPageNeedsNothingThatItsPolicyForbids(t *testing.T) {
	t.Parallel()
	_, server := serve(t, Options{Mounts: map[string]http.Handler{"/vfs/": http.NotFoundHandler()}})
	got := do(t, server, "GET", "/", "")
	policy := got.header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q", policy)
	}
	styles := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindAllStringSubmatch(got.body, -1)
	if len(styles) != 1 {
		t.Fatalf("the page has %d styles", len(styles))
	}
	sum := sha256.Sum256([]byte(styles[0][1]))
	if hash := base64.StdEncoding.EncodeToString(sum[:]); !strings.Contains(policy, "'sha256-"+hash+"'") {
		t.Errorf("%q does not let the page have its style, sha256-%s", policy, hash)
	}
	for _, never := range []string{"<script", " style=", " onclick", "http://", "https://", "@import", "url("} {
		if strings.Contains(got.body, never) {
			t.Errorf("the page has %q", never)
		}
	}
	if !strings.Contains(got.body, "/vfs/") || strings.Contains(got.body, "/mcp") || strings.Contains(got.body, "/metrics") {
		t.Error("the page does not tell what is served beside the commands, or tells of what is not")
	}
}

func TestTheStartPageNamesErrorsByCode(t *testing.T) {
	t.Parallel()
	_, server := serve(t, Options{})
	body := do(t, server, "GET", "/", "").body
	if !regexp.MustCompile(`Its own errors: \d{4} [a-z ]+[,.]`).MatchString(body) {
		t.Errorf("no command names its errors in %s", body)
	}
}
