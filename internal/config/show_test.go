package config

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/tools/servers"
	"github.com/aibridge/aibridge/security/token"
)

func TestTheConfigurationIsShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	c := Default()
	c.NATS.URL = "nats://user:topsecret@n1:4222,tls://topsecret@n2:4222"
	c.Telemetry.OTLP = "https://collector.example/v1?api-key=topsecret"
	c.LLM.BaseURL = "https://user:topsecret@models.example/v1"
	c.MCP.Servers = []servers.Config{{Name: "notes", Command: []string{"notes", "--token", "topsecret"}, Env: map[string]string{"KEY": "topsecret"}}}
	c.Tokens.Issuers = []token.Issuer{{Issuer: "https://id.example", Secret: "topsecret"}}
	c.Log.Level = "debug"
	shown := c.Show()
	text, err := json.Marshal(shown)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "topsecret") {
		t.Errorf("a secret is shown: %s", text)
	}
	values := map[string]string{}
	for _, s := range shown {
		value, err := json.Marshal(s.Value)
		if err != nil {
			t.Fatal(err)
		}
		if values[s.Name] = string(value); s.Changed {
			values[s.Name] += " changed"
		}
		if s.About == "" || s.Flag != "" && (s.Flag != "--"+strings.NewReplacer(".", "-", "_", "-").Replace(s.Name) || !strings.HasPrefix(s.Env, "AIBRIDGE_")) {
			t.Errorf("%+v", s)
		}
	}
	for name, want := range map[string]string{
		"log.level": `"debug" changed`, "log.format": `"text"`, "limits.depth": "64", "tokens.issuers": `["https://id.example"] changed`, "mcp.servers": `["notes"] changed`, "dev": "false",
	} {
		if values[name] != want {
			t.Errorf("%s is %s, want %s", name, values[name], want)
		}
	}
}

func TestAClusterIsWhatTheConfigurationSays(t *testing.T) {
	t.Parallel()
	c := Default()
	if got := c.Cluster(); got.Store != "embedded" || got.Standby || got.Servers != nil {
		t.Errorf("%+v", got)
	}
	c.NATS.URL, c.NATS.Replicas = "tls://u:topsecret@n1:4222,tls://n2:4222", 3
	if got := c.Cluster(); got.Store != "nats" || !got.Standby || got.Replicas != 3 || len(got.Servers) != 2 || strings.Contains(got.Servers[0], "topsecret") {
		t.Errorf("%+v", got)
	}
}
