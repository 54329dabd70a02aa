// Package webfile serves files that do not change while the process runs.
package webfile

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

// A File is served with an ETag, so that clients that have it do not get it again,
// and compressed to clients that accept that. Both are made at the first request.
type File struct {
	ContentType string
	Plain       []byte

	prepare sync.Once
	etag    string
	gzip    []byte // nil if it is no smaller
}

// New is a file of the type of its name's extension.
func New(name string, content []byte) *File {
	return &File{ContentType: contentTypes[path.Ext(name)], Plain: content}
}

var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".png": "image/png", ".txt": "text/plain; charset=utf-8", ".json": "application/json",
}

// ServeHTTP sends the file. The methods besides GET and HEAD are the caller's to
// refuse.
func (f *File) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.prepare.Do(f.compress)
	h := w.Header()
	h.Set("Content-Type", f.ContentType)
	h.Set("Etag", f.etag)
	h.Set("Cache-Control", "no-cache") // keep it, but ask
	h.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == f.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.Plain
	if f.gzip != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.gzip
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the reader may be gone
	}
}

func (f *File) compress() {
	sum := sha256.Sum256(f.Plain)
	// A weak tag, as it is the same whether the content goes out compressed or not.
	f.etag = `W/"` + hex.EncodeToString(sum[:12]) + `"`
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(f.Plain) // to memory
	_ = w.Close()
	if out.Len() < len(f.Plain) {
		f.gzip = out.Bytes()
	}
}
