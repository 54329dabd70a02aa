package config

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/approval"
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

func TestNoFormOfAnAddressShowsItsSecret(t *testing.T) {
	t.Parallel()
	for _, nats := range []string{
		"user:topsecret@n1:4222", "topsecret@n1:4222", "n1:4222,user:topsecret@n2:4222", "n1:4222, topsecret@n2:4222",
		"nats://user:topsecret@n1:4222", "tls://n1:4222,topsecret@n2:4222", "nats://user:top,topsecret@n1:4222",
		"nats://n1:4222?token=topsecret",
	} {
		c := Default()
		c.NATS.URL = nats
		shown(t, &c)
	}
	for _, address := range []string{
		"https://user:topsecret@h/v1", "https://user:a,topsecret@h/v1", "https://topsecret@h/v1", "https://h/v1?key=topsecret",
		"https://h/v1?key=a,topsecret", "https://h/v1#topsecret", "https://h:port/v1?topsecret",
	} {
		c := Default()
		c.Telemetry.OTLP = address
		c.LLM.BaseURL = address
		shown(t, &c)
	}
}

// shown fails if a configuration, as a list or as a file, or its cluster is shown
// with a secret.
func shown(t *testing.T, c *Config) {
	t.Helper()
	var file strings.Builder
	if err := c.WriteYAML(&file); err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{c.Show(), c.Place(), file.String()} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "topsecret") {
			t.Errorf("with NATS at %s and models at %s a secret is shown: %s", c.NATS.URL, c.LLM.BaseURL, text)
		}
	}
}

// TestAFileIsShownWithoutSecrets has a secret wherever the file takes free text, and
// what is none beside it.
func TestAFileIsShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	c := Default()
	c.MCP.URL = "https://public.example/mcp?topsecret"
	c.MCP.Servers = []servers.Config{
		{
			Name: "notes", Command: []string{"/bin/notes", "--token", "topsecret"},
			Env: map[string]string{"KEY": "topsecret", "MIXED": "topsecret env:KEY", "ELSEWHERE": "env:NOTES_KEY"},
		},
		{
			Name: "web", URL: "https://web.example/mcp/path?key=topsecret",
			Headers: map[string]string{"Authorization": "Bearer env:WEB_TOKEN", "X-Key": "file:/etc/key", "Own": "topsecret env:KEY"},
		},
	}
	c.Approvals.Webhooks = []approval.WebhookSettings{{URL: "https://hooks.example/services/topsecret", SecretEnv: "HOOK"}}
	c.Passwords.HTTP.URL = "https://judge.example/auth?key=topsecret"
	c.Tokens.Issuers = []token.Issuer{{Issuer: "https://user:topsecret@id.example", JWKS: "https://id.example/keys?topsecret"}}
	c.Origins = []string{"https://user:topsecret@page.example"}
	shown(t, &c)
	var file strings.Builder
	if err := c.WriteYAML(&file); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"/bin/notes", "env:NOTES_KEY", "Bearer env:WEB_TOKEN", "file:/etc/key", "https://web.example/mcp/path?xxxxx",
		"https://hooks.example/xxxxx", "secret_env: HOOK", "https://judge.example/auth?xxxxx", "@id.example", "@page.example",
	} {
		if !strings.Contains(file.String(), want) {
			t.Errorf("the file lacks %s:\n%s", want, file.String())
		}
	}
	if c.MCP.Servers[0].Env["KEY"] != "topsecret" || c.MCP.Servers[0].Command[2] != "topsecret" || !strings.HasSuffix(c.Approvals.Webhooks[0].URL, "topsecret") {
		t.Error("the configuration itself was changed")
	}
}

func TestAClusterIsWhatTheConfigurationSays(t *testing.T) {
	t.Parallel()
	c := Default()
	if got := c.Place(); got.Store != "embedded" || got.Standby || got.Servers != nil {
		t.Errorf("%+v", got)
	}
	c.NATS.URL, c.NATS.Replicas = "tls://u:topsecret@n1:4222,tls://n2:4222", 3
	if got := c.Place(); got.Store != "nats" || !got.Standby || got.Replicas != 3 || len(got.Servers) != 2 || strings.Contains(got.Servers[0], "topsecret") {
		t.Errorf("%+v", got)
	}
}
