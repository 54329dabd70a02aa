package site

import (
	"encoding/json"
	"html"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/aibridge/aibridge/docs"
)

var (
	href   = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	anchor = regexp.MustCompile(` id="([^"]+)"`)
)

func build(t *testing.T, sources fs.FS) map[string]string {
	t.Helper()
	texts, err := textsOf(sources)
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func textsOf(sources fs.FS) (map[string]string, error) {
	files, err := Build(sources, "v1.2.3")
	texts := make(map[string]string)
	for name, content := range files {
		texts[name] = string(content)
	}
	return texts, err
}

var buildSite = sync.OnceValues(func() (map[string]string, error) { return textsOf(docs.Files) })

// wholeSite is the site of the documentation, built once for all tests.
func wholeSite(t *testing.T) map[string]string {
	t.Helper()
	texts, err := buildSite()
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func TestEveryLinkOfTheSiteLeadsSomewhere(t *testing.T) {
	files := wholeSite(t)
	found := 0
	for name, text := range files {
		if path.Ext(name) != ".html" {
			continue
		}
		for _, m := range href.FindAllStringSubmatch(text, -1) {
			found++
			to, fragment, _ := strings.Cut(html.UnescapeString(m[1]), "#")
			if strings.Contains(to, "://") {
				continue
			}
			file := name
			if to != "" {
				file = path.Join(path.Dir(name), to)
			}
			other, ok := files[file]
			if !ok || strings.HasPrefix(to, "/") {
				t.Errorf("%s: %s is no file of the site", name, m[1])
				continue
			}
			if fragment != "" && !strings.Contains(other, ` id="`+html.EscapeString(fragment)+`"`) {
				t.Errorf("%s: %s has no heading for #%s", name, file, fragment)
			}
		}
	}
	if found < 1000 {
		t.Errorf("found only %d links", found)
	}
}

func TestAnchorsAreThere(t *testing.T) {
	if n := len(anchor.FindAllString(wholeSite(t)["operations.html"], -1)); n < 10 {
		t.Errorf("%d headings of operations.html can be linked to", n)
	}
}

// TestNoPageHasWhatItsPolicyForbids looks for scripts, styles and handlers in
// the markup.
func TestNoPageHasWhatItsPolicyForbids(t *testing.T) {
	inline := regexp.MustCompile(`<(?:script>|script [^>]*>[^<]|style|[a-z][^>]* (?:style|on[a-z]+)=|iframe|form)`)
	for name, text := range wholeSite(t) {
		if path.Ext(name) != ".html" {
			continue
		}
		if found := inline.FindString(text); found != "" {
			t.Errorf("%s has %s", name, found)
		}
		if strings.Contains(text, "javascript:") {
			t.Errorf("%s has an address that is a script", name)
		}
	}
}

func TestEveryPageBeginsWithWhatItHelpsToDo(t *testing.T) {
	names, err := fs.Glob(docs.Files, "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		source, err := fs.ReadFile(docs.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := parse(name, source, nil, "main")
		if err != nil || len(p.lead) < 40 {
			t.Errorf("docs/%s begins with %q, %v: a title, and a sentence about what it helps to do", name, p.lead, err)
		}
	}
}

func TestTheSearchKnowsCommandsAndCodes(t *testing.T) {
	var list []found
	if err := json.Unmarshal([]byte(wholeSite(t)["search.json"]), &list); err != nil {
		t.Fatal(err)
	}
	for want, in := range map[string]string{"commands.html#skillinvoke": "skill.invoke", "troubleshooting.html#by-code": "4008", "operations.html#tls": "ca.pem"} {
		ok := false
		for _, f := range list {
			ok = ok || f.File == want && strings.Contains(f.Heading+f.Text, in)
		}
		if !ok {
			t.Errorf("the search does not know %s with %q", want, in)
		}
	}
}

// TestTheSearchKnowsWhatTablesExplain looks for the sections that come first in a
// search for a code.
func TestTheSearchKnowsWhatTablesExplain(t *testing.T) {
	var list []found
	if err := json.Unmarshal([]byte(wholeSite(t)["search.json"]), &list); err != nil {
		t.Fatal(err)
	}
	var explained []string
	for _, f := range list {
		if slices.Contains(strings.Fields(f.Terms), "4012") {
			explained = append(explained, f.File)
		}
	}
	if !slices.Contains(explained, "troubleshooting.html#by-code") || len(explained) > 5 {
		t.Errorf("4012 is explained by %v", explained)
	}
}

func TestPagesThatTheIndexDoesNotNameComeLast(t *testing.T) {
	files := build(t, fstest.MapFS{
		"README.md":       {Data: []byte("# Start\n\nBegin here.\n\n## First\n[B](b.md), [code](../cmd/main.go), [deep](sub/README.md)\n")},
		"a.md":            {Data: []byte("# Page A\n\nAbout a. ![x](pictures/x.svg)\n\n| a | b |\n|:--|--:|\n| 1 | 2 |\n\n<script>alert(1)</script>\n")},
		"b.md":            {Data: []byte("# Page B\n\nAbout b: [up](#two).\n\n## Two\n\n## Two\n")},
		"sub/README.md":   {Data: []byte("# Sub\n\n[back](../b.md#two-1) and [in](../../x/y.go)\n")},
		"pictures/x.svg":  {Data: []byte("<svg/>")},
		"pictures/y.html": {Data: []byte("no")},
	})
	index := files["index.html"]
	if b, a := strings.Index(index, `<a href="b.html">Page B`), strings.Index(index, `<a href="a.html">Page A`); b < 0 || a < b || !strings.Contains(index, "<h2>More</h2>") {
		t.Errorf("%s", index)
	}
	if !strings.Contains(index, `href="https://github.com/aibridge/aibridge/blob/v1.2.3/cmd/main.go"`) || !strings.Contains(index, `href="sub/index.html"`) {
		t.Errorf("%s", index)
	}
	if sub := files["sub/index.html"]; !strings.Contains(sub, `href="../b.html#two-1"`) || !strings.Contains(sub, "/blob/v1.2.3/x/y.go") || !strings.Contains(sub, `href="../site.css"`) {
		t.Errorf("%s", sub)
	}
	if a := files["a.html"]; strings.Contains(a, "alert") || !strings.Contains(a, `align="right"`) || !strings.Contains(a, `src="pictures/x.svg"`) {
		t.Errorf("%s", a)
	}
}

func TestAPageWithoutATitleIsAnError(t *testing.T) {
	if _, err := Build(fstest.MapFS{"a.md": {Data: []byte("nothing")}}, "main"); err == nil || !strings.Contains(err.Error(), "docs/a.md") {
		t.Errorf("%v", err)
	}
}

func TestTheSiteIsServed(t *testing.T) {
	mux := http.NewServeMux()
	for path, handler := range Mounts() {
		mux.Handle(path, handler)
	}
	for target, want := range map[string]struct {
		status int
		has    string
	}{
		"/docs":                       {http.StatusPermanentRedirect, ""},
		"/docs/":                      {http.StatusOK, "<title>AI Bridge"},
		"/docs/operations.html":       {http.StatusOK, "<h1"},
		"/docs/decisions/":            {http.StatusOK, "<h1"},
		"/docs/pictures/overview.svg": {http.StatusOK, "<svg"},
		"/docs/../go.mod":             {http.StatusTemporaryRedirect, ""},
		"/docs/none.html":             {http.StatusNotFound, "no such page"},
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		if w.Code != want.status || !strings.Contains(w.Body.String(), want.has) {
			t.Errorf("%s: %d %.100s", target, w.Code, w.Body)
		}
		if csp := w.Header().Get("Content-Security-Policy"); w.Code == http.StatusOK && (!strings.HasPrefix(csp, "default-src 'self';") || strings.Contains(csp, "unsafe")) {
			t.Errorf("the policy of %s is %q", target, csp)
		}
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/docs", nil))
	if at := w.Header().Get("Location"); at != "docs/" {
		t.Errorf("/docs leads to %q", at)
	}
}
