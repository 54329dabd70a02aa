package run

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"io"
	"io/fs"
	"os"
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
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	tree := os.DirFS(sampleFolder)
	err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		f, err := w.Create(path)
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		return err
	})
	if err == nil && note != "" {
		var f io.Writer
		if f, err = w.Create("NOTE.md"); err == nil {
			_, err = io.WriteString(f, note)
		}
	}
	if err != nil {
		t.Fatal(err)
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
