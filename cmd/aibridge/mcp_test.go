package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/eventually"
)

// mcp runs aibridge mcp under the official SDK's client.
func (b *binary) mcp(t *testing.T, env []string, flags ...string) (*sdk.ClientSession, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Patience)
	defer cancel()
	cmd := exec.Command(b.path, append([]string{"mcp", "--data", b.data}, flags...)...)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &sdk.CommandTransport{Command: cmd}, nil)
	if err == nil {
		t.Cleanup(func() { _ = session.Close() })
	}
	return session, err
}

func TestMCPWorksOutOfTheBoxUnderDev(t *testing.T) {
	b := startBinary(t, t.TempDir(), "--dev")
	c, err := b.mcp(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) == 0 {
		t.Fatalf("tools: %v %+v", err, list)
	}
	r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "agent.list"})
	if err != nil || r.IsError {
		t.Errorf("agent.list: %v %+v", err, r)
	}
}

func TestMCPIsAPartyOfItsOwn(t *testing.T) {
	b := startBinary(t, t.TempDir())
	run := func(env []string, flags ...string) string {
		t.Helper()
		cmd := exec.Command(b.path, append([]string{"mcp", "--data", b.data}, flags...)...)
		cmd.Env = append(os.Environ(), env...)
		cmd.Stdin = strings.NewReader("")
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("mcp %v goes on", flags)
		}
		return string(out)
	}
	adminFile := filepath.Join(b.data, app.AdminKeyFile)
	admin, err := os.ReadFile(adminFile)
	if err != nil {
		t.Fatal(err)
	}
	if out := run(nil); !strings.Contains(out, "--create-key") {
		t.Errorf("without a key: %s", out)
	}
	if out := run(nil, "--url", "mqtt://"+b.addresses.MQTT); !strings.Contains(out, "--create-key") {
		t.Errorf("by another door without a key: %s", out)
	}
	if out := run(nil, "--api-key-file", adminFile); !strings.Contains(out, "administrator") {
		t.Errorf("with the administrator's key: %s", out)
	}
	if out := run([]string{"AIBRIDGE_API_KEY=" + strings.TrimSpace(string(admin))}); !strings.Contains(out, "administrator") {
		t.Errorf("with the administrator's key in a variable: %s", out)
	}

	for _, flags := range [][]string{{"--create-key", "--url", "mqtt://" + b.addresses.MQTT}, nil} { // made once, and there from then on
		c, err := b.mcp(t, nil, flags...)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "agent.list"}); err != nil || r.IsError {
			t.Errorf("agent.list: %v %+v", err, r)
		}
	}
	for _, url := range []string{"mqtt://" + b.addresses.MQTT, "wss://" + b.addresses.WS, "https://" + b.addresses.HTTP} {
		c, err := b.mcp(t, []string{"AIBRIDGE_URL=" + url})
		if err != nil {
			t.Fatalf("by %s: %v", url, err)
		}
		if r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "agent.list"}); err != nil || r.IsError {
			t.Errorf("agent.list by %s: %v %+v", url, err, r)
		}
	}
	keyFile := filepath.Join(b.data, mcpKeyFile)
	info, err := os.Stat(keyFile)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the key's file: %v %v", info, err)
	}
	call := func(command string, args ...string) string {
		cmd := exec.Command(b.path, append([]string{"call", "--url", "mqtt://" + b.addresses.MQTT, "--api-key-file", keyFile, command}, args...)...)
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	for _, forbidden := range []string{"key.list", "policy.list"} {
		if out := call(forbidden); !strings.Contains(out, "2003") && !strings.Contains(out, "not allowed") && !strings.Contains(out, "permission") {
			t.Errorf("the key may use %s: %s", forbidden, out)
		}
	}
	if out := call("agent.register", "agent_id=intruder", "type=end_agent"); strings.Contains(out, "online") || strings.Contains(out, "offline") {
		t.Errorf("the key registers agents: %s", out)
	}
}

func TestScopesOfMCPAreActionsThatThereAre(t *testing.T) {
	known := map[string]bool{"vfs:read": true} // of HTTP alone
	for c := range app.Commands().All() {
		known[c.Action] = true
	}
	for _, scope := range mcpScopes() {
		if !known[scope] {
			t.Errorf("there is no action %s", scope)
		}
	}
}
