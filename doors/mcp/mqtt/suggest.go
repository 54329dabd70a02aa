package mqtt

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/broker"
	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/protocol"
)

// The user properties of CONNACK with suggestions for MCP programs.
const (
	nameProperty    = "MCP-SERVER-NAME"
	filtersProperty = "MCP-SERVER-NAME-FILTERS"
	rolesProperty   = "MCP-RBAC"
)

// Suggest are the user properties of the CONNACK of a client that has shown some in
// its CONNECT: the first suggestion that is for it holds.
func Suggest(list []mcpdoor.Suggestion, c *broker.Client, shown []protocol.UserProperty) []protocol.UserProperty {
	component := ""
	for _, u := range shown {
		if u.Key == componentProperty {
			component = u.Value
		}
	}
	if component != isClient && component != isServer {
		return nil
	}
	who := c.Principal()
	for i := range list {
		s := &list[i]
		if s.Principal != "" && s.Principal != who.ID || s.Space != "" && s.Space != who.Home() {
			continue
		}
		if properties := suggested(s, component); len(properties) > 0 {
			return properties
		}
	}
	return nil
}

// suggested are the properties of a suggestion for a server or a client.
func suggested(s *mcpdoor.Suggestion, component string) (all []protocol.UserProperty) {
	if component == isServer {
		if s.Name != "" {
			all = append(all, protocol.UserProperty{Key: nameProperty, Value: s.Name})
		}
		return all
	}
	if len(s.Filters) > 0 {
		all = append(all, protocol.UserProperty{Key: filtersProperty, Value: asJSON(s.Filters)})
	}
	if len(s.Roles) > 0 {
		type role struct {
			Server string `json:"server_name"`
			Role   string `json:"role_name"`
		}
		var roles []role
		for _, name := range slices.Sorted(maps.Keys(s.Roles)) {
			roles = append(roles, role{name, s.Roles[name]})
		}
		all = append(all, protocol.UserProperty{Key: rolesProperty, Value: asJSON(roles)})
	}
	return all
}

func asJSON(v any) string {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // of plain strings
	return strings.TrimSpace(text.String())
}
