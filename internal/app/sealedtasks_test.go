package app_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm/wire/scripted"
)

func TestAnswersThatAreKeptAreSealed(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, withModel(scripted.ForBridge(t, says("the combination is 4711-ABRACADABRA"))))
	c := n.Dial(t)
	call := func(command, params string) json.RawMessage {
		t.Helper()
		result, err := client.Call[json.RawMessage](t.Context(), c, command, json.RawMessage(params))
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	call("agent.register", `{"agent_id":"VISIBLE-4711","type":"end_agent"}`)
	var started struct {
		ID string `json:"task_id"`
	}
	if err := json.Unmarshal(call("llm.query", `{"query":"a","stream":true,"async":true}`), &started); err != nil {
		t.Fatal(err)
	}
	get := `{"task_id":"` + started.ID + `"}`
	eventually.Holds(t, "it is answered", func() bool { return strings.Contains(string(call("task.get", get)), `"state":"succeeded"`) })
	n.Restart(t)
	c = n.Dial(t)
	if task := string(call("task.get", get)); !strings.Contains(task, "ABRACADABRA") {
		t.Errorf("after a restart: %s", task)
	}
	if list := string(call("task.list", `{}`)); !strings.Contains(list, started.ID) {
		t.Errorf("the list has %s", list)
	}
	n.Stop(t)
	for text, want := range map[string]bool{"VISIBLE-4711": true, "ABRACADABRA": false} {
		if found := within(t, n.Config.Data, text); found != want {
			t.Errorf("%s is in the data folder: %v", text, found)
		}
	}
}

// within reports whether some file of a folder has a text.
func within(t *testing.T, dir, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		found = found || bytes.Contains(data, []byte(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
