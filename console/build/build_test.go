package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestTheBuiltPageIsWhatTheSourcesGive needs the packages of npm; where they
// are not, the page cannot be built.
func TestTheBuiltPageIsWhatTheSourcesGive(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("../node_modules/preact"); err != nil {
		t.Skip("the npm packages of console are not there (cd console && npm ci)")
	}
	files, err := build("..")
	if err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(os.DirFS("../dist"), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if files[name] == nil {
			t.Errorf("dist/%s comes from no source: go generate ./console", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("../dist", filepath.FromSlash(name)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("dist/%s is not what the sources give: go generate ./console", name)
		}
	}
}
