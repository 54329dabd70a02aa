package console

import (
	"bytes"
	"io/fs"
	"net/http"
	"strings"

	"github.com/aibridge/aibridge/internal/webfile"
)

// policy is the content security policy of the page: it may use resources of this very
// address, and nothing else. There is no exception in it, and no script is made of text.
const policy = "default-src 'self'; base-uri 'self'; object-src 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// assets are the built files, by name.
type assets map[string]*webfile.File

func loadAssets(files fs.FS) (assets, error) {
	all := make(assets)
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		all[name] = webfile.New(name, data)
		return nil
	})
	return all, err
}

// baseMark stands in index.html for the way from a page's address to the
// console's root.
const baseMark = `<base href="./">`

// servePage serves the one HTML page that all pages are. Its base leads from
// the address that was asked for back to the root, so that the console works
// below whatever prefix a proxy in front has put before it.
func (d *Door) servePage(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	d.page(strings.Count(r.URL.Path, "/")-1).ServeHTTP(w, r)
}

// page is the page for addresses some levels below the root.
func (d *Door) page(levels int) *webfile.File {
	page := d.assets["index.html"]
	if levels <= 0 {
		return page
	}
	base := []byte(`<base href="` + strings.Repeat("../", levels) + `">`)
	return webfile.New("index.html", bytes.Replace(page.Plain, []byte(baseMark), base, 1))
}

// serveAsset serves what the page loads.
func (d *Door) serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := d.assets["assets/"+r.PathValue("file")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	a.ServeHTTP(w, r)
}
