package foreign_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/gobuild"
	"github.com/aibridge/aibridge/protocol"
)

// node is the Node of the tests' own, which is new enough.
func node(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("node_modules/.bin/node")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		t.Skip("the foreign clients are not installed: run npm ci in mcp/foreign")
	}
	if !strings.HasPrefix(string(out), "v22.") && !strings.HasPrefix(string(out), "v24.") {
		t.Skipf("Node is %s, the inspector wants 22 or newer: run npm ci in mcp/foreign", out)
	}
	return path
}

// buildDir holds the binary while the tests run.
var buildDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "aibridge-foreign-")
	if err != nil {
		panic(err)
	}
	buildDir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// build makes the real binary, once.
var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "aibridge")
	if out, err := gobuild.Command(context.Background(), "build", "-o", path, "github.com/aibridge/aibridge/cmd/aibridge").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

func program(t *testing.T) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func bridge(t *testing.T, change ...func(*app.Config)) *bridgetest.Node {
	t.Helper()
	n := bridgetest.Start(t, change...)
	agent := n.Dial(t, client.WithAgent(client.Agent{ID: "heater-1"}))
	type order struct {
		Celsius float64 `json:"celsius"`
	}
	_, err := agent.ServeSkill(t.Context(), client.Skill{ID: "heater", Description: "Heats", Capabilities: []client.Capability{
		{
			ID: "set", Description: "Sets the target", Idempotent: true,
			ParamsSchema: json.RawMessage(`{"type":"object","properties":{"celsius":{"type":"number","minimum":5,"maximum":35}},"required":["celsius"]}`),
			ResultSchema: json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"target":{"type":"number"}},"required":["target"]}`),
			Handler: client.Handle(func(_ context.Context, _ *client.Invocation, o order) (map[string]float64, error) {
				return map[string]float64{"target": o.Celsius}, nil
			}),
		},
		{
			ID: "warm-up", Handler: client.Handle(func(ctx context.Context, in *client.Invocation, _ struct{}) (struct{}, error) {
				in.Progress(40, "getting warm")
				<-ctx.Done()
				return struct{}{}, ctx.Err()
			}),
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// run runs a foreign client and reads the JSON that it prints.
func run(t *testing.T, into any, name string, args ...string) {
	t.Helper()
	runTelling(t, func(string) {}, into, name, args...)
}

// runTelling is run with whom the lines are told that it writes to stderr meanwhile.
func runTelling(t *testing.T, tell func(line string), into any, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	// What it starts finds the right Node, and nothing of the machine's bridges.
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(name)+":"+os.Getenv("PATH"), "AIBRIDGE_DATA=", "AIBRIDGE_API_KEY=", "AIBRIDGE_TOKEN=")
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		tell(lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", strings.Join(args, " "), err, stdout.String(), said.String())
	}
	if err := json.Unmarshal(stdout.Bytes(), into); err != nil {
		t.Fatalf("%s printed %s: %v", strings.Join(args, " "), stdout.String(), err)
	}
}

type called struct {
	Content           []struct{ Type, Text string }
	StructuredContent map[string]any
	IsError           bool
}

type tool struct {
	Name         string
	Annotations  struct{ IdempotentHint, ReadOnlyHint bool }
	InputSchema  struct{ Required []string }
	OutputSchema json.RawMessage
}

func TestTheTypeScriptSDKWorksWithABridge(t *testing.T) {
	node := node(t)
	program := program(t)
	for name, args := range map[string]func(*bridgetest.Node) []string{
		"http": func(n *bridgetest.Node) []string { return []string{"client.mjs", "http", n.HTTPURL("/mcp")} },
		"stdio": func(n *bridgetest.Node) []string {
			return []string{"client.mjs", "stdio", program, "mcp", "--data", n.Config.Data}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got struct {
				Server       struct{ Name string }
				Instructions string
				Tools        []tool
				Set, Refused called
				Unknown      struct {
					Code    int
					Message string
				}
				Progress []struct {
					Progress, Total float64
					Message         string
				}
				Cancelled string
				Resources []struct{ Name, URI string }
				Templates []struct{ URITemplate string }
				Agent     struct{ Contents []struct{ Text string } }
			}
			run(t, &got, node, args(bridge(t))...)
			if got.Server.Name != "aibridge" || got.Instructions == "" {
				t.Errorf("server: %+v", got.Server)
			}
			found := false
			for _, tool := range got.Tools {
				if tool.Name == "heater.set" {
					found = tool.Annotations.IdempotentHint && len(tool.OutputSchema) > 0 && len(tool.InputSchema.Required) == 1
				}
			}
			if !found {
				t.Errorf("tools: %+v", got.Tools)
			}
			if got.Set.IsError || got.Set.StructuredContent["target"] != 21.5 {
				t.Errorf("set: %+v", got.Set)
			}
			if !got.Refused.IsError || !strings.Contains(got.Refused.Content[0].Text, "celsius") {
				t.Errorf("99 °C: %+v", got.Refused)
			}
			if got.Unknown.Code != -32602 || !strings.Contains(got.Unknown.Message, "heater.sett") {
				t.Errorf("an unknown tool: %+v", got.Unknown)
			}
			if len(got.Progress) != 1 || got.Progress[0].Message != "getting warm" || !strings.Contains(got.Cancelled, "enough") {
				t.Errorf("progress %+v, cancelled %q", got.Progress, got.Cancelled)
			}
			if len(got.Resources) < 3 || len(got.Templates) != 2 || !strings.Contains(got.Agent.Contents[0].Text, "online") {
				t.Errorf("resources: %+v %+v %+v", got.Resources, got.Templates, got.Agent)
			}
		})
	}
}

// The SDKs of both generations fill in forms for what a call lacks, and have by task the
// results of calls that outlast their patience: of a kiln that is not done before its
// client was told, and of a door that somebody has to agree to.
func TestTheTypeScriptSDKsHaveTheirResultsByTask(t *testing.T) {
	node := node(t)
	for _, generation := range []string{"1", "2"} {
		t.Run(generation, func(t *testing.T) {
			patient := bridge(t) // with forms, whose calls may take their time
			n := bridge(t, func(c *app.Config) { c.MCP.HoldMS, c.Approvals.WaitSeconds = 200, 1 })
			done := make(chan struct{})
			fired, opened := slowSkill(t, n, "kiln", "fire", "", done), slowSkill(t, n, "door", "open", "high", nil)
			var got struct {
				Forms []struct {
					Message         string
					RequestedSchema struct{ Required []string }
				}
				Set, Declined, Kiln, Fired, Door, Opened called
			}
			heard := func(line string) {
				switch line {
				case "told":
					close(done)
				case "waits":
					agree(t, n)
				}
			}
			runTelling(t, heard, &got, node, "patience.mjs", generation, patient.HTTPURL("/mcp"), n.HTTPURL("/mcp"))
			if len(got.Forms) != 2 || len(got.Forms[0].RequestedSchema.Required) != 1 || got.Forms[0].RequestedSchema.Required[0] != "celsius" {
				t.Errorf("forms: %+v", got.Forms)
			}
			if got.Set.IsError || got.Set.StructuredContent["target"] != 21.5 || !got.Declined.IsError {
				t.Errorf("accepted: %+v, declined: %+v", got.Set, got.Declined)
			}
			if got.Kiln.IsError || got.Fired.StructuredContent["state"] != "succeeded" || fired.Load() != 1 {
				t.Errorf("the kiln was fired %d times, told %+v, then %+v", fired.Load(), got.Kiln, got.Fired)
			}
			if got.Door.IsError || got.Opened.StructuredContent["state"] != "succeeded" || opened.Load() != 1 {
				t.Errorf("the door was opened %d times, told %+v, then %+v", opened.Load(), got.Door, got.Opened)
			}
		})
	}
}

// slowSkill has an agent serve a skill with one capability, which is not done before a
// channel is closed, if there is one, and counts its calls.
func slowSkill(t *testing.T, n *bridgetest.Node, skill, capability, risk string, done <-chan struct{}) *atomic.Int32 {
	t.Helper()
	var calls atomic.Int32
	agent := n.Dial(t, client.WithAgent(client.Agent{ID: protocol.AgentID(skill)}))
	_, err := agent.ServeSkill(t.Context(), client.Skill{ID: protocol.SkillID(skill), Capabilities: []client.Capability{{
		ID: protocol.CapabilityID(capability), Risk: risk, Handler: client.Handle(func(ctx context.Context, _ *client.Invocation, _ struct{}) (struct{}, error) {
			calls.Add(1)
			if done != nil {
				select {
				case <-done:
				case <-ctx.Done():
				}
			}
			return struct{}{}, ctx.Err()
		}),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return &calls
}

// agree approves of everything that waits at a bridge, as soon as something does: a client
// may be told of the task before its approval is asked for.
func agree(t *testing.T, n *bridgetest.Node) {
	t.Helper()
	type approval struct {
		ID    string `json:"approval_id"`
		Nonce string `json:"nonce"`
	}
	c := n.Dial(t)
	var waiting []approval
	eventually.Holds(t, "something waits", func() bool {
		list, err := client.Call[struct{ Approvals []approval }](t.Context(), c, "approval.list", map[string]string{"state": "pending"})
		waiting = list.Approvals
		return err == nil && len(waiting) > 0
	})
	for _, a := range waiting {
		if _, err := client.Call[json.RawMessage](t.Context(), c, "approval.decide", map[string]string{"approval_id": a.ID, "nonce": a.Nonce, "decision": "approve"}); err != nil {
			t.Error(err)
		}
	}
}

func TestTheInspectorWorksWithABridge(t *testing.T) {
	node := node(t)
	program := program(t)
	n := bridge(t)
	for name, target := range map[string][]string{
		"http":  {n.HTTPURL("/mcp"), "--transport", "http"},
		"stdio": {program, "mcp", "--data", n.Config.Data},
	} {
		t.Run(name, func(t *testing.T) {
			inspect := func(into any, args ...string) {
				t.Helper()
				run(t, into, node, append(append([]string{"node_modules/.bin/mcp-inspector", "--cli"}, target...), args...)...)
			}
			var list struct{ Tools []tool }
			inspect(&list, "--method", "tools/list")
			if len(list.Tools) < 3 {
				t.Errorf("tools: %+v", list)
			}
			var set called
			inspect(&set, "--method", "tools/call", "--tool-name", "heater.set", "--tool-arg", "celsius=19")
			if set.IsError || set.StructuredContent["target"] != 19.0 {
				t.Errorf("set: %+v", set)
			}
		})
	}
}
