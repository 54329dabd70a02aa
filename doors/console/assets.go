package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// policy is what the page may do: use what comes from this very address, and
// nothing else. There is no exception in it, and no script is made of text.
const policy = "default-src 'self'; base-uri 'self'; object-src 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// An asset is a built file, plain and compressed.
type asset struct {
	contentType string
	plain, gzip []byte
	etag        string
}

type assets map[string]asset

var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
}

// loadAssets reads the built files, and compresses them once.
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
		sum := sha256.Sum256(data)
		all[name] = asset{contentTypes[path.Ext(name)], data, compressed(data), `W/"` + hex.EncodeToString(sum[:12]) + `"`}
		return nil
	})
	return all, err
}

func compressed(data []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is one there is
	_, _ = w.Write(data)                                    // to memory
	_ = w.Close()
	return out.Bytes()
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
	page := d.assets["index.html"]
	if up := strings.Count(r.URL.Path, "/") - 1; up > 0 {
		base := []byte(`<base href="` + strings.Repeat("../", up) + `">`)
		page.plain = bytes.Replace(page.plain, []byte(baseMark), base, 1)
		page.gzip = nil
		page.etag = `W/"` + strings.Trim(page.etag, `W/"`) + "-" + strconv.Itoa(up) + `"`
	}
	page.serve(w, r)
}

// serveAsset serves what the page loads.
func (d *Door) serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := d.assets["assets/"+r.PathValue("file")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	a.serve(w, r)
}

func (a asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	h.Set("Etag", a.etag)
	h.Set("Cache-Control", "no-cache") // keep it, but ask
	h.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == a.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := a.plain
	if a.gzip != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = a.gzip
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the reader may be gone
	}
}
