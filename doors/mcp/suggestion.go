package mcp

import (
	"regexp"

	"github.com/aibridge/aibridge/protocol"
)

// A Suggestion is the data for connecting clients that declare to be servers or clients
// of MCP. It grants no right: policy does.
type Suggestion struct {
	Principal string            `yaml:"principal" doc:"for the clients of this principal, of every space; for all clients when empty"`
	Space     protocol.SpaceID  `yaml:"space" doc:"for the clients of this space; of every space when empty"`
	Name      string            `yaml:"server_name" doc:"server-name for servers"`
	Filters   []string          `yaml:"server_name_filters" doc:"topic filters of the server-names that clients use"`
	Roles     map[string]string `yaml:"roles" doc:"roles of clients by server-name, which servers give meaning to"`
}

// Bounds of suggestions.
const (
	maxSuggestions = 256
	maxSuggested   = 64 // filters or roles of one
)

// The forms of server-names, and of their filters.
var (
	suggestedName   = regexp.MustCompile(`^[^/+#\x00-\x1f]{1,64}(/[^/+#\x00-\x1f]{1,64}){0,7}$`)
	suggestedFilter = regexp.MustCompile(`^(#|([^/+#\x00-\x1f]{1,64}|\+)(/([^/+#\x00-\x1f]{1,64}|\+)){0,7}(/#)?)$`)
)

// checkSuggestions reports faults of suggestions.
func checkSuggestions(list []Suggestion, fail func(format string, args ...any)) {
	if len(list) > maxSuggestions {
		fail("mcp.suggestions: %d are more than %d", len(list), maxSuggestions)
	}
	for i := range list {
		s := &list[i]
		if s.Name == "" && len(s.Filters) == 0 && len(s.Roles) == 0 {
			fail("mcp.suggestions: number %d suggests nothing", i+1)
		}
		if s.Name != "" && !suggestedName.MatchString(s.Name) {
			fail("mcp.suggestions: %q is no server-name", s.Name)
		}
		if len(s.Filters) > maxSuggested || len(s.Roles) > maxSuggested {
			fail("mcp.suggestions: number %d has more than %d filters or roles", i+1, maxSuggested)
		}
		for _, filter := range s.Filters {
			if !suggestedFilter.MatchString(filter) {
				fail("mcp.suggestions: %q is no topic filter of server-names", filter)
			}
		}
		for name := range s.Roles {
			if !suggestedName.MatchString(name) {
				fail("mcp.suggestions: %q is no server-name", name)
			}
		}
	}
}
