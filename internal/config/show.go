package config

import (
	"net/url"
	"strings"

	"github.com/aibridge/aibridge/commands/status"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/settings"
)

// Show lists the settings as people may see them. Secrets are in no setting but
// in files that settings name; what could have one all the same, such as the
// address of a server or the environment of a program, is shown without.
func (c *Config) Show() []status.Setting {
	defaults := Default()
	var shown []status.Setting
	for _, s := range settings.Show(c, &defaults) {
		value := s.Value
		if text, ok := value.(string); ok && s.Key == "nats.url" {
			value = strings.Join(natsServers(text), ",")
		} else if ok {
			value = withoutPassword(text)
		}
		shown = append(shown, status.Setting{Name: s.Key, Value: value, Changed: s.Changed, Flag: "--" + s.Flag, Env: s.Env, About: s.Doc})
	}
	issuers, servers := []string{}, []string{}
	for _, i := range c.Tokens.Issuers {
		issuers = append(issuers, withoutPassword(i.Issuer))
	}
	for _, s := range c.MCP.Servers {
		servers = append(servers, s.Name)
	}
	return append(shown,
		status.Setting{Name: "tokens.issuers", Value: issuers, Changed: len(issuers) > 0, About: "issuers whose tokens are accepted; in the file only"},
		status.Setting{Name: "mcp.servers", Value: servers, Changed: len(servers) > 0, About: "external MCP servers whose tools are offered; in the file only"},
	)
}

// Place is the place among other bridges that the configuration gives a
// bridge.
func (c *Config) Place() status.Cluster {
	if !c.NATS.External() {
		return status.Cluster{Store: status.Embedded, Replicas: 1}
	}
	return status.Cluster{Store: status.NATS, Servers: natsServers(c.NATS.URL), Replicas: c.NATS.Replicas, Standby: true}
}

// natsServers are the addresses of NATS servers without passwords. They may lack
// a scheme.
func natsServers(urls string) []string {
	list := strings.Split(natsd.Redact(urls), ",")
	for i, address := range list {
		list[i] = withoutPassword(address)
	}
	return list
}

// hidden stands for what may let somebody in.
const hidden = "xxxxx"

// withoutPassword takes out of an address what may let somebody in.
func withoutPassword(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	u, err := url.Parse(text)
	if err != nil {
		return hidden // what cannot be read cannot be judged either
	}
	if u.User != nil {
		u.User = url.User(hidden)
	}
	if u.RawQuery != "" {
		u.RawQuery = hidden
	}
	if u.Fragment != "" {
		u.Fragment, u.RawFragment = hidden, ""
	}
	return u.String()
}
