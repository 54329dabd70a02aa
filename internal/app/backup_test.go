package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
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
	if _, err := app.Backup(t.Context(), n.Config, &archive, app.BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, force := range map[string]bool{"by itself": false, "with force": true} {
		_, err := app.Restore(t.Context(), n.Config, bytes.NewReader(archive.Bytes()), force)
		if protocol.CodeOf(err) != protocol.InvalidState {
			t.Errorf("%s: %v", name, err)
		}
	}
	if data, err := os.ReadFile(receiving); err != nil || string(data) != "half a file" {
		t.Errorf("what the bridge was receiving: %q, %v", data, err)
	}
}
