package keyfile

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestASecretIsMadeOnceAndForItsOwnerOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	first, err := Secret(path, 32)
	if err != nil || len(first) != 32 || bytes.Equal(first, make([]byte, 32)) {
		t.Fatalf("%x, %v", first, err)
	}
	again, err := Secret(path, 32)
	if err != nil || !bytes.Equal(first, again) {
		t.Errorf("another one: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestASecretOfAnotherSizeIsRefusedAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Secret(path, 32); err == nil {
		t.Error("taken")
	}
	if data, _ := os.ReadFile(path); string(data) != "short" {
		t.Error("replaced")
	}
}

func TestWriteReplacesAndLeavesNothingElse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, content := range []string{"one", "two"} {
		if err := Write(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if data, _ := os.ReadFile(path); string(data) != content {
			t.Errorf("%q", data)
		}
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("%d files", len(files))
	}
	if err := Write(filepath.Join(dir, "none", "f"), nil); err == nil {
		t.Error("written into a folder that is not there")
	}
}
