package site

import (
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/aibridge/aibridge/docs"
	"github.com/aibridge/aibridge/internal/webfile"
)

// policy is the list of things that a page may do: use what comes from this very
// address, and nothing else. There is no exception in it, and no script is made of
// text.
const policy = "default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// Mounts serve the site that belongs to this program at /docs. The pages are
// made when somebody asks for one first.
func Mounts() map[string]http.Handler {
	files := sync.OnceValues(func() (map[string]*webfile.File, error) { return load("main") })
	return map[string]http.Handler{
		"GET /docs": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			// Relative, as a proxy in front may have put the bridge below a prefix.
			w.Header().Set("Location", "docs/")
			w.WriteHeader(http.StatusPermanentRedirect)
		}),
		"GET /docs/": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Security-Policy", policy)
			all, err := files()
			if err != nil {
				http.Error(w, "the documentation cannot be shown", http.StatusInternalServerError)
				return
			}
			name := strings.TrimPrefix(r.URL.Path, "/docs/")
			if name == "" || strings.HasSuffix(name, "/") {
				name = path.Join(name, "index.html")
			}
			f := all[name]
			if f == nil {
				http.Error(w, "there is no such page; /docs/ lists those that there are", http.StatusNotFound)
				return
			}
			f.ServeHTTP(w, r)
		}),
	}
}

func load(ref string) (map[string]*webfile.File, error) {
	built, err := Build(docs.Files, ref)
	if err != nil {
		return nil, err
	}
	all := make(map[string]*webfile.File)
	for name, content := range built {
		all[name] = webfile.New(name, content)
	}
	return all, nil
}
