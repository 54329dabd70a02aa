package app_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
)

// foreignA2A holds the official library of the A2A project, and programs that use it.
const foreignA2A = "testdata/a2a"

// The client library of the A2A project itself, in both bindings.
func TestTheOfficialClientOfA2AIsServed(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, agents)
	heater(t, n)
	said, err := officialA2A(t, "client.cjs", n.HTTPURL("")).CombinedOutput()
	if err != nil || strings.Count(string(said), " ok ") != 2 {
		t.Errorf("%v\n%s", err, said)
	}
}

// officialA2A is a program that uses the library of the A2A project.
func officialA2A(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	if _, err := os.Stat(filepath.Join(foreignA2A, "node_modules", "@a2a-js", "sdk")); err != nil {
		t.Skip("the library of A2A is not installed: run npm ci in internal/app/" + foreignA2A)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	return exec.CommandContext(t.Context(), node, append([]string{filepath.Join(foreignA2A, program)}, args...)...)
}

// An agent by that library, as a skill of a bridge, in both bindings.
func TestTheOfficialAgentOfA2AIsASkill(t *testing.T) {
	t.Parallel()
	program := officialA2A(t, "agent.cjs")
	program.Stderr = os.Stderr
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Process.Kill(); _ = program.Wait() })
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	n := bridgetest.Start(t, remoteAgents)
	c := n.Caller(t, "operator")
	for id, path := range map[string]string{"by-rpc": "/rpc", "by-rest": "/rest"} {
		approved(t, c, id, fmt.Sprintf(`{"agent_id":%q,"url":%q,"risk":"low"}`, id, strings.TrimSpace(url)+path+"/card.json"))
		say := func(params string) (got answered) {
			if err := json.Unmarshal(must(t, c, "skill.invoke", fmt.Sprintf(`{"skill_id":%q,"capability_id":"greet","params":%s}`, id, params)), &got); err != nil {
				t.Fatal(err)
			}
			return got
		}
		if got := say(`{"text":"Ada"}`); got.Data.State != "completed" || got.Data.Text != "Hello, Ada" {
			t.Errorf("%s: %+v", id, got)
		}
		asked := say(`{"text":"who"}`)
		if asked.Data.State != "input_required" || asked.Data.Text != "Who are you?" {
			t.Fatalf("%s: %+v", id, asked)
		}
		if got := say(fmt.Sprintf(`{"text":"Bob","continue":%q}`, asked.Data.Continue)); got.Data.State != "completed" || !strings.Contains(got.Data.Text, "Hello, Bob") {
			t.Errorf("%s, going on: %+v", id, got)
		}
		cancelsWhatIsSlow(t, c, id)
	}
}

// cancelsWhatIsSlow has an agent begin an endless task, and cancels it.
func cancelsWhatIsSlow(t *testing.T, c *bridgetest.Raw, id string) {
	t.Helper()
	var begun struct {
		Task string `json:"task_id"`
	}
	if err := json.Unmarshal(must(t, c, "skill.invoke", fmt.Sprintf(`{"skill_id":%q,"capability_id":"message","params":{"text":"slowly"},"async":true}`, id)), &begun); err != nil {
		t.Fatal(err)
	}
	task := func() string { return string(must(t, c, "task.get", fmt.Sprintf(`{"task_id":%q}`, begun.Task))) }
	eventually.Holds(t, "the agent thinks", func() bool { return strings.Contains(task(), "thinking") })
	must(t, c, "task.cancel", fmt.Sprintf(`{"task_id":%q}`, begun.Task))
	eventually.Holds(t, "it is cancelled", func() bool { return strings.Contains(task(), `"cancelled"`) })
}
