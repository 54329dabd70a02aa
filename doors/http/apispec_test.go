package http

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

var linked = regexp.MustCompile(`\]\((api-spec[^)]*|openapi\.json)\)`)

// TestTheAPISpecLeadsToEveryCommand follows the links from /llms.txt as a coding
// agent does.
func TestTheAPISpecLeadsToEveryCommand(t *testing.T) {
	t.Parallel()
	api, server := serve(t, Options{Authenticate: withKey})
	read := func(path string) string {
		t.Helper()
		got := do(t, server, "GET", path, "")
		if got.status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, got.status, got.body)
		}
		return got.body
	}
	pages := map[string]string{}
	for _, from := range []string{"/llms.txt", "/api-spec.md"} {
		links := linked.FindAllStringSubmatch(read(from), -1)
		if len(links) == 0 {
			t.Errorf("%s leads nowhere", from)
		}
		for _, link := range links {
			pages[link[1]] = read("/" + link[1])
		}
	}
	for c := range api.Set.All() {
		page := pages["api-spec/"+c.Family()+".md"]
		if !strings.Contains(page, "\n## "+c.Name+"\n\n"+c.Summary) {
			t.Errorf("%s is on no page", c.Name)
		}
		if !strings.Contains(pages["api-spec.md"], c.Name) {
			t.Errorf("%s is not listed", c.Name)
		}
	}
	if got := do(t, server, "GET", "/api-spec/none.md", ""); got.status != http.StatusNotFound || got.code(t) != "3001" {
		t.Errorf("a family that is not there: %d %s", got.status, got.body)
	}
}
