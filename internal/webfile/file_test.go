package webfile

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func get(f *File, method string, header ...string) *http.Response {
	r := httptest.NewRequest(method, "/", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w.Result()
}

func TestAFileIsSentOnceAndSmall(t *testing.T) {
	text := strings.Repeat("enough to be compressed ", 100)
	f := New("page.html", []byte(text))
	plain := get(f, http.MethodGet)
	body, _ := io.ReadAll(plain.Body)
	if string(body) != text || plain.Header.Get("Content-Type") != "text/html; charset=utf-8" || plain.Header.Get("Content-Encoding") != "" {
		t.Errorf("%v %.40s", plain.Header, body)
	}
	small := get(f, http.MethodGet, "Accept-Encoding", "br, gzip")
	compressed, _ := io.ReadAll(small.Body)
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	if body, _ = io.ReadAll(r); string(body) != text || len(compressed) > 200 {
		t.Errorf("%d bytes: %.40s", len(compressed), body)
	}
	if head := get(f, http.MethodHead); head.StatusCode != 200 || head.ContentLength != int64(len(text)) {
		t.Errorf("%+v", head)
	}
	if again := get(f, http.MethodGet, "If-None-Match", plain.Header.Get("Etag")); again.StatusCode != http.StatusNotModified {
		t.Errorf("sent again: %d", again.StatusCode)
	}
}

func TestAFileThatDoesNotShrinkStaysPlain(t *testing.T) {
	if got := get(New("x.png", []byte{1, 2, 3}), http.MethodGet, "Accept-Encoding", "gzip"); got.Header.Get("Content-Encoding") != "" || got.Header.Get("Content-Type") != "image/png" {
		t.Errorf("%v", got.Header)
	}
}
