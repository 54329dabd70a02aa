package app_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/seal"
)

// rotation is the answer of secret.rotate.
type rotation struct {
	Secret   string `json:"secret"`
	Version  string `json:"version"`
	Resealed int    `json:"resealed"`
	Versions []struct {
		Version string         `json:"version"`
		State   string         `json:"state"`
		Uses    map[string]int `json:"uses"`
		Bridges []string       `json:"bridges"`
	} `json:"versions"`
}

func (h *house) rotate(secret string) rotation {
	h.t.Helper()
	var r rotation
	if err := json.Unmarshal([]byte(h.must("secret.rotate", `{"secret":"`+secret+`"}`)), &r); err != nil || r.Version == "" {
		h.t.Fatalf("%v: %+v", err, r)
	}
	return r
}

func TestDataKeysRotateUnderWhatTheySeal(t *testing.T) {
	t.Parallel()
	const credential = "secret-of-the-remote-vfs"
	var mu sync.Mutex
	shown := ""
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		shown = r.Header.Get("Authorization") + r.Header.Get("X-Api-Key")
		mu.Unlock()
		http.NotFound(w, r)
	}))
	t.Cleanup(remote.Close)
	h := newHouse(t, func(c *app.Config) { c.VFS.Private = true })
	asked := func() bool {
		mu.Lock()
		shown = ""
		mu.Unlock()
		h.run(h.admin, "vfs.list", `{"group_name":"pictures"}`) // the remote knows nothing, which is all right
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(shown, credential)
	}
	h.run(h.admin, "vfs.register", `{"vfs_id":"nas","vfs_url":"`+remote.URL+`","group_name":"pictures","credential":"`+credential+`"}`)
	if !asked() {
		t.Fatal("the remote VFS is not shown its credential")
	}
	first := h.rotate("data_key")
	if first.Resealed != 1 || len(first.Versions) != 2 || first.Versions[0].Version != first.Version || first.Versions[0].State != "active" {
		t.Errorf("rotated: %+v", first)
	}
	if again := h.rotate("data_key"); again.Resealed != 1 || len(again.Versions) != 3 {
		t.Errorf("rotated again: %+v", again)
	}
	if !asked() {
		t.Error("after a rotation the remote VFS is not shown its credential")
	}
	h.Restart(t)
	if !asked() {
		t.Error("after a restart the remote VFS is not shown its credential")
	}
	operator := h.key(protocol.KindOperator, "anna", protocol.RoleOperator)
	if code, body := h.run(operator, "secret.rotate", `{"secret":"data_key"}`); code != protocol.PermissionDenied {
		t.Errorf("an operator rotates keys: %s", body)
	}

	h.Stop(t)
	master, err := os.ReadFile(filepath.Join(h.Config.Data, seal.KeyFile))
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(h.Config.Data, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == seal.KeyFile {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(credential)) || bytes.Contains(data, master) {
			t.Errorf("%s has a secret in the open", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestABridgeDoesNotStartWithAnotherMasterKey(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	n.Stop(t)
	if err := os.WriteFile(filepath.Join(n.Config.Data, seal.KeyFile), bytes.Repeat([]byte{7}, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := app.New(t.Context(), n.Config); err == nil || !strings.Contains(err.Error(), seal.KeyFile) {
		t.Errorf("started: %v", err)
	}
}
