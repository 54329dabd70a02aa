package run

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/aibridge/aibridge/llm/run/pack"
)

const sampleFolder = "../../examples/workflow/climate-check"

// sample is the sample package as a zip.
func sample(t testing.TB) []byte {
	t.Helper()
	return sampleWith(t, "")
}

// sampleWith is the sample with a note in it, unless that is empty.
func sampleWith(t testing.TB, note string) []byte {
	t.Helper()
	files := sampleFiles(t)
	if note != "" {
		files["NOTE.md"] = note
	}
	return zipOf(t, files)
}

// sampleFiles are the files of the sample, by their path in the package.
func sampleFiles(t testing.TB) map[string]string {
	t.Helper()
	files := make(map[string]string)
	tree := os.DirFS(sampleFolder)
	err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(tree, path)
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// zipOf packs files.
func zipOf(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		f, err := w.Create(path)
		if err == nil {
			_, err = io.WriteString(f, files[path])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestTheSampleIsAPackage(t *testing.T) {
	p, err := pack.Read(sample(t), pack.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Warnings) > 0 {
		t.Errorf("it is odd: %v", p.Warnings)
	}
}

func base64Of(data []byte) string { return base64.StdEncoding.EncodeToString(data) }
