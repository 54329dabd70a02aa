package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
)

// A line to the bridge carries one message there, and its answer back.
type line func(method, name, params string) string

// mcpOverHTTP sends messages to /mcp.
func mcpOverHTTP(t *testing.T, url string) line {
	return func(method, name, params string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(taskMessage(method, params)))
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
		} {
			r.Header.Set(key, value)
		}
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: bridgetest.Patience}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// mcpOverStdio sends messages to a program that carries them.
func mcpOverStdio(t *testing.T, b *binary) line {
	t.Helper()
	cmd := exec.Command(b.path, "mcp", "--data", b.data)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	answers := bufio.NewScanner(out)
	return func(method, _, params string) string {
		t.Helper()
		if _, err := fmt.Fprintln(in, taskMessage(method, params)); err != nil {
			t.Fatal(err)
		}
		if !answers.Scan() {
			t.Fatalf("aibridge mcp ended: %v", answers.Err())
		}
		return answers.Text()
	}
}

func taskMessage(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`, method, params)
}

// A toldTask is a task as its client is told of it.
type toldTask struct {
	Result struct {
		Type   string                     `json:"resultType"`
		ID     string                     `json:"taskId"`
		Status string                     `json:"status"`
		Inputs map[string]json.RawMessage `json:"inputRequests"`
	} `json:"result"`
}

func readTask(t *testing.T, text string) *toldTask {
	t.Helper()
	var told toldTask
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return &told
}

// A call waits for somebody when the bridge is killed. Its client has a task, and
// decides and gets the result by it from the next bridge.
func TestTasksOfMCPClientsSurviveACrash(t *testing.T) {
	data, fixed := t.TempDir(), []string{"--dev", "--http", freeAddress(), "--mqtt", freeAddress()}
	b := startBinary(t, data, fixed...)
	var opened atomic.Int64
	device := serveDoor(t, b, &opened)
	lines := map[string]line{"HTTP": mcpOverHTTP(t, "http://"+b.addresses.HTTP+"/mcp"), "stdio": mcpOverStdio(t, b)}
	tasks := make(map[string]string)
	for way, say := range lines {
		text := say("tools/call", "door.open", `"name":"door.open","arguments":{},`)
		made := readTask(t, text)
		if made.Result.Type != "task" || made.Result.Status != "input_required" {
			t.Fatalf("over %s: %s", way, text)
		}
		tasks[way] = made.Result.ID
	}
	_ = device.Close()
	b.kill()
	b = startBinary(t, data, fixed...)
	serveDoor(t, b, &opened)
	for way, say := range lines {
		id := tasks[way]
		named := fmt.Sprintf(`"taskId":%q,`, id)
		text := say("tasks/get", id, named)
		waits := readTask(t, text)
		if waits.Result.Status != "input_required" || len(waits.Result.Inputs) != 1 || opened.Load() != 0 {
			t.Fatalf("over %s after the crash: %s", way, text)
		}
	}
	for way, say := range lines {
		id := tasks[way]
		named := fmt.Sprintf(`"taskId":%q,`, id)
		for key := range readTask(t, say("tasks/get", id, named)).Result.Inputs {
			say("tasks/update", id, named+fmt.Sprintf(`"inputResponses":{%q:{"action":"accept","content":{"decision":"approve"}}},`, key))
		}
		end := ""
		eventually.Holds(t, "the task has ended", func() bool {
			end = say("tasks/get", id, named)
			return readTask(t, end).Result.Status == "completed"
		})
		if !strings.Contains(end, `"text":"{\"open\":true}"`) || strings.Contains(end, `"isError":true`) {
			t.Errorf("over %s: %s", way, end)
		}
	}
	if n := opened.Load(); n != int64(len(lines)) {
		t.Errorf("the door was opened %d times", n)
	}
}

// serveDoor is a device that somebody has to agree about, and counts.
func serveDoor(t *testing.T, b *binary, opened *atomic.Int64) *client.Client {
	t.Helper()
	c := dial(t, b, client.WithAgent(client.Agent{ID: "door-1"}))
	_, err := c.ServeSkill(t.Context(), client.Skill{ID: "door", Capabilities: []client.Capability{{
		ID: "open", Risk: "high", Handler: client.Handle(func(context.Context, *client.Invocation, struct{}) (map[string]bool, error) {
			opened.Add(1)
			return map[string]bool{"open": true}, nil
		}),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
