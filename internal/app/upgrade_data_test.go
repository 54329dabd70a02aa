package app_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
)

// TestABridgeStartsOnTheDataOfTheLastRelease starts on the folder that the last
// release left, which testdata/earlier/README.md describes, and twice: what the
// first start has changed must be read, too.
func TestABridgeStartsOnTheDataOfTheLastRelease(t *testing.T) {
	data := t.TempDir()
	unpack(t, "testdata/earlier/data.tar.gz", data)
	n := bridgetest.Start(t, func(c *app.Config) { c.Data, c.Dev = data, false })
	checkEarlierData(t, n)
	n.Restart(t)
	checkEarlierData(t, n)
}

// checkEarlierData closes its clients: one left open would come back after
// a restart, and throw the next one of its id out.
func checkEarlierData(t *testing.T, n *bridgetest.Node) {
	t.Helper()
	admin := dialWithKey(t, n, filepath.Join(n.Config.Data, "admin.key"), "administrator")
	defer admin.Close()
	for command, want := range map[string]struct {
		params map[string]any
		has    string
	}{
		"agent.get":      {map[string]any{"agent_id": "lamp-1"}, `"agent_id":"lamp-1"`},
		"skill.discover": {map[string]any{}, `"skill_id":"lamp"`},
		"cap.query":      {map[string]any{"cap_id": "home"}, `"cap_name":"Home"`},
		"group.query":    {map[string]any{"cap_id": "home", "group_id": "hall"}, `"role":"light"`},
		"group.data.get": {map[string]any{"cap_id": "home", "group_id": "hall", "data_key": "brightness"}, `"data_value":80`},
		"key.list":       {map[string]any{}, `"name":"hall lamp"`},
		"audit.verify":   {map[string]any{}, `"ok":true`},
	} {
		got, err := client.Call[json.RawMessage](t.Context(), admin, command, want.params)
		if err != nil || !strings.Contains(string(got), want.has) {
			t.Errorf("%s: %s, %v, want %s", command, got, err, want.has)
		}
	}
	if got := readWithKey(t, n, "/vfs/download?group_name=notes&path=note.txt"); got != "hello\n" {
		t.Errorf("the file holds %q", got)
	}
	notes := make(chan string, 1)
	if _, err := admin.Subscribe(t.Context(), "house/note", func(_ context.Context, m client.Message) { notes <- string(m.Payload) }); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-notes:
		if got != "kept" {
			t.Errorf("the retained message is %q", got)
		}
	case <-t.Context().Done():
		t.Fatal("the retained message is lost")
	}
	lamp := dialWithKey(t, n, "testdata/earlier/lamp-1.key", "lamp-1")
	defer lamp.Close()
	if _, err := client.Call[json.RawMessage](t.Context(), lamp, "agent.heartbeat", map[string]any{"agent_id": "lamp-1"}); err != nil {
		t.Errorf("the device's key: %v", err)
	}
}

func dialWithKey(t *testing.T, n *bridgetest.Node, file, id string) *client.Client {
	t.Helper()
	key, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return n.Dial(t, client.WithClientID(id), client.WithAPIKey(strings.TrimSpace(string(key))))
}

// readWithKey gets a page as the administrator.
func readWithKey(t *testing.T, n *bridgetest.Node, path string) string {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(n.Config.Data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.HTTPURL(path), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-API-Key", strings.TrimSpace(string(key)))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// unpack writes the files of an archive below a folder.
func unpack(t *testing.T, archive, folder string) {
	t.Helper()
	packed, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(plain); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(folder, filepath.FromSlash(header.Name))
		if header.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(at, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		content, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
