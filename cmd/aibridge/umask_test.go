//go:build unix

package main

import (
	"encoding/json"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/aibridge/aibridge/client"
)

func TestNobodyElseMayReadWhatABridgeKeeps(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0)) // what the bridge inherits lets everybody in
	data := filepath.Join(t.TempDir(), "data")
	bridge := startBinary(t, data, "--dev")
	c := dial(t, bridge)
	if _, err := client.Call[json.RawMessage](t.Context(), c, "agent.register", json.RawMessage(`{"agent_id":"lamp-1","type":"end_agent"}`)); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return nil //nolint:nilerr // it went meanwhile
		}
		files++
		if mode := info.Mode().Perm(); mode&0o077 != 0 && entry.Name() != "ca.pem" { // which is for everybody to trust
			t.Errorf("%s has the mode %v", path, mode)
		}
		return nil
	})
	if err != nil || files < 10 {
		t.Errorf("%d files, %v", files, err)
	}
}
