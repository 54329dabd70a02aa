package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/backup"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/storage"
	"github.com/aibridge/aibridge/protocol"
)

// TestARefusedRestoreLeavesWhatABridgeWorksOn restores below a bridge that is
// receiving a file.
func TestARefusedRestoreLeavesWhatABridgeWorksOn(t *testing.T) {
	url := startNATS(t)
	n := bridgetest.Start(t, func(c *app.Config) {
		c.NATS.URL = url
		c.VFS.Store = "folder"
	})
	receiving := filepath.Join(n.Config.Data, "vfs", "tmp", "receiving")
	if err := os.WriteFile(receiving, []byte("half a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if _, err := storage.Backup(t.Context(), n.Config, &archive, backup.Options{}); err != nil {
		t.Fatal(err)
	}
	for name, force := range map[string]bool{"by itself": false, "with force": true} {
		_, err := storage.Restore(t.Context(), n.Config, bytes.NewReader(archive.Bytes()), force)
		if protocol.CodeOf(err) != protocol.InvalidState {
			t.Errorf("%s: %v", name, err)
		}
	}
	if data, err := os.ReadFile(receiving); err != nil || string(data) != "half a file" {
		t.Errorf("what the bridge was receiving: %q, %v", data, err)
	}
}

// TestARestoreFillsAFolderThatIsElsewhere has the files of workflows on another
// disk.
func TestARestoreFillsAFolderThatIsElsewhere(t *testing.T) {
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := app.DefaultConfig()
	config.Data = t.TempDir()
	write(filepath.Join(config.Data, "runs", "packages", "one"), "saved")
	var archive bytes.Buffer
	if _, err := storage.Backup(t.Context(), config, &archive, backup.Options{}); err != nil {
		t.Fatal(err)
	}
	config.Data = t.TempDir()
	elsewhere := t.TempDir()
	write(filepath.Join(elsewhere, "stale"), "newer")
	if err := os.Symlink(elsewhere, filepath.Join(config.Data, "runs")); err != nil {
		t.Skip("no links here: ", err)
	}
	if _, err := storage.Restore(t.Context(), config, bytes.NewReader(archive.Bytes()), false); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("over files that are there: %v", err)
	}
	if _, err := storage.Restore(t.Context(), config, bytes.NewReader(archive.Bytes()), true); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(elsewhere, "packages", "one")); err != nil || string(data) != "saved" {
		t.Errorf("restored %q, %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(elsewhere, "stale")); !os.IsNotExist(err) {
		t.Errorf("what was there is there still: %v", err)
	}
}
