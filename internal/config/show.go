package config

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/commands/status"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/internal/settings"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/tools/servers"
)

// Show lists the settings as people may see them. Secrets are not in settings but
// in files that settings name; settings that could have one all the same, such as
// the address of a server or the environment of a program, are shown without it.
func (c *Config) Show() []status.Setting {
	defaults := Default()
	var shown []status.Setting
	for _, s := range settings.Show(c, &defaults) {
		value := s.Value
		if text, ok := value.(string); ok && (s.Key == "nats.url" || s.Key == "doors.nats.url") {
			value = strings.Join(natsServers(text), ",")
		} else if ok {
			value = withoutPassword(text)
		} else if texts, ok := value.([]string); ok {
			value = each(texts, withoutPassword)
		}
		shown = append(shown, status.Setting{Name: s.Key, Value: value, Changed: s.Changed, Flag: "--" + s.Flag, Env: s.Env, About: s.Doc})
	}
	issuers, servers, links, schemas := []string{}, []string{}, []string{}, []string{}
	for _, i := range c.Tokens.Issuers {
		issuers = append(issuers, withoutPassword(i.Issuer))
	}
	for _, s := range c.MCP.Servers {
		servers = append(servers, s.Name)
	}
	for i := range c.Schemas {
		schemas = append(schemas, c.Schemas[i].Topic)
	}
	queues := []string{}
	for i := range c.Queues {
		queues = append(queues, c.Queues[i].Name)
	}
	for i := range c.Links {
		links = append(links, c.Links[i].Name)
	}
	sites := []string{}
	for i := range c.Sites.Have {
		sites = append(sites, c.Sites.Have[i].Name)
	}
	suggestions := []string{}
	for i := range c.MCP.Suggestions {
		suggestions = append(suggestions, c.MCP.Suggestions[i].Principal)
	}
	return append(shown,
		status.Setting{Name: "mcp.suggestions", Value: suggestions, Changed: len(suggestions) > 0, About: "principals that are told, over MQTT, which MCP servers are meant for them; empty for everybody; in the file only"},
		status.Setting{Name: "sites.have", Value: sites, Changed: len(sites) > 0, About: "sites of this bridge, whose names nobody else uses; in the file only"},
		status.Setting{Name: "tokens.issuers", Value: issuers, Changed: len(issuers) > 0, About: "issuers whose tokens are accepted; in the file only"},
		status.Setting{Name: "schemas", Value: schemas, Changed: len(schemas) > 0, About: "JSON Schemas that the payloads of topics have to fit; in the file only"},
		status.Setting{Name: "queues", Value: queues, Changed: len(queues) > 0, About: "queues of messages that wait for workers; in the file only"},
		status.Setting{Name: "links", Value: links, Changed: len(links) > 0, About: "other MQTT brokers, and what goes there and comes from them; in the file only"},
		status.Setting{Name: "mcp.servers", Value: servers, Changed: len(servers) > 0, About: "external MCP servers whose tools are offered; in the file only"},
	)
}

// withoutSecrets is a copy of the configuration for people. Addresses in it may still
// have secrets, see [hideInAddresses].
func (c *Config) withoutSecrets() Config {
	shown := *c
	shown.NATS.URL = strings.Join(natsServers(c.NATS.URL), ",")
	if c.Doors.NATS.On() {
		shown.Doors.NATS.URL = strings.Join(natsServers(c.Doors.NATS.URL), ",")
	}
	shown.MCP.Servers = each(c.MCP.Servers, func(s servers.Config) servers.Config {
		s.Env, s.Headers = references(s.Env), references(s.Headers)
		if len(s.Command) > 1 {
			s.Command = []string{s.Command[0], hidden} // arguments may be keys
		}
		return s
	})
	shown.Approvals.Webhooks = each(c.Approvals.Webhooks, func(w approval.WebhookSettings) approval.WebhookSettings {
		w.URL = origin(w.URL) // the path of many a webhook is its secret
		return w
	})
	return shown
}

// each is a list with a function applied to every item, and nil of nil.
func each[T any](list []T, of func(T) T) []T {
	made := slices.Clone(list)
	for i, v := range made {
		made[i] = of(v)
	}
	return made
}

// reference is a value that names the place of a secret, perhaps with its kind before.
var reference = regexp.MustCompile(`^((?i:bearer|basic|token) )?(env|file):\S+$`)

// references keeps the references in a map, and hides other values.
func references(values map[string]string) map[string]string {
	shown := maps.Clone(values)
	for name, value := range shown {
		if !reference.MatchString(value) {
			shown[name] = hidden
		}
	}
	return shown
}

// origin is the address of a server without path and query.
func origin(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return hidden
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/" + hidden}).String()
}

// hideInAddresses hides the credentials in all addresses of a file.
func hideInAddresses(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		n.Value = withoutPassword(n.Value)
	}
	for _, inner := range n.Content {
		hideInAddresses(inner)
	}
}

// Place is the place among other bridges that the configuration gives a
// bridge.
func (c *Config) Place() status.Cluster {
	switch {
	case !c.Shared():
		return status.Cluster{Store: status.Embedded, Replicas: 1}
	case c.Cluster.Formed():
		return status.Cluster{Store: status.Embedded, Servers: c.Cluster.Join, Replicas: c.Replicas(), Standby: true}
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

// hidden stands for a credential.
const hidden = "xxxxx"

// withoutPassword is an address without the credentials in it.
func withoutPassword(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	u, err := url.Parse(text)
	if err != nil {
		return hidden // an unreadable value may be secret
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
