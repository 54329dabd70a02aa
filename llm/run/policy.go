package run

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/llm/tools"
)

// A Policy decides which tools a model has, and their limits. Both the offered tools
// and the callable ones depend on Allows alone.
type Policy struct {
	FS  FSPolicy  `json:"fs"`
	MCP MCPPolicy `json:"mcp"`
	// Tools are patterns of names of the bridge's own tools, such as
	// thermostat.*; commands must be named one by one or by family.
	Tools []string `json:"tools"`
}

// FSPolicy is the policy of file tools.
type FSPolicy struct {
	Enabled       bool  `json:"enabled"`
	MaxReadBytes  int64 `json:"max_read_bytes"`
	MaxWriteBytes int64 `json:"max_write_bytes"`
}

// MCPPolicy is the policy of tools of MCP servers. Only the listed servers are allowed;
// * is any.
type MCPPolicy struct {
	Enabled        bool     `json:"enabled"`
	AllowedServers []string `json:"allowed_servers"`
}

// The default limits.
const (
	DefaultMaxRead  = 512 << 10 // bytes that one fs.read returns
	DefaultMaxWrite = 2 << 20   // bytes that one fs.write writes
	DefaultMaxTurns = 20        // turns between two inputs of the user
)

// DefaultPolicy allows everything within the default limits.
func DefaultPolicy() Policy {
	return Policy{
		FS:    FSPolicy{Enabled: true, MaxReadBytes: DefaultMaxRead, MaxWriteBytes: DefaultMaxWrite},
		MCP:   MCPPolicy{Enabled: true, AllowedServers: []string{"*"}},
		Tools: []string{"*"},
	}
}

// And is the intersection of both policies: flags that both set, the lesser of limits,
// entries of both lists.
func (p Policy) And(q Policy) Policy {
	return Policy{
		FS: FSPolicy{
			Enabled:       p.FS.Enabled && q.FS.Enabled,
			MaxReadBytes:  lesser(p.FS.MaxReadBytes, q.FS.MaxReadBytes),
			MaxWriteBytes: lesser(p.FS.MaxWriteBytes, q.FS.MaxWriteBytes),
		},
		MCP: MCPPolicy{
			Enabled:        p.MCP.Enabled && q.MCP.Enabled,
			AllowedServers: common(p.MCP.AllowedServers, q.MCP.AllowedServers),
		},
		Tools: common(p.Tools, q.Tools),
	}
}

// lesser is the lesser of two limits, of which 0 is none.
func lesser(a, b int64) int64 {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	}
	return min(a, b)
}

// common returns the intersection of two lists of patterns: equal patterns, and the
// narrower one of two patterns of which one covers the other.
func common(a, b []string) []string {
	both := []string{}
	for _, x := range a {
		for _, y := range b {
			switch {
			case x == y, covers(y, x):
				both = append(both, x)
			case covers(x, y):
				both = append(both, y)
			}
		}
	}
	slices.Sort(both)
	return slices.Compact(both)
}

// covers reports whether a pattern matches everything that another one does.
func covers(pattern, other string) bool {
	prefix, any := strings.CutSuffix(pattern, "*")
	return any && strings.HasPrefix(other, prefix)
}

// The sources of tools that policies distinguish.
const (
	sourceFS      = "fs"
	sourceUI      = "ui"
	sourceCommand = "command"
	mcpPrefix     = "mcp:"
)

// ownCommands are the commands that no policy can allow as tools of a run: with them
// runs could start runs without end, answer themselves and each other, and import their
// own packages.
var ownCommands = []string{start.Name, continueRun.Name, importPackage.Name}

// Allows reports whether the model has a tool.
func (p Policy) Allows(d *tools.Declaration) bool {
	switch {
	case d.Risk == tools.RiskDeny:
		return false
	case d.Source == sourceUI:
		return true
	case d.Source == sourceFS:
		return p.FS.Enabled
	case strings.HasPrefix(d.Source, mcpPrefix):
		server := strings.TrimPrefix(d.Source, mcpPrefix)
		return p.MCP.Enabled && anyCovers(p.MCP.AllowedServers, server)
	case d.Source == sourceCommand && slices.Contains(ownCommands, d.Name):
		return false
	case d.Source == sourceCommand:
		named := slices.DeleteFunc(slices.Clone(p.Tools), func(pattern string) bool { return pattern == "*" })
		return anyCovers(named, d.Name)
	}
	return anyCovers(p.Tools, d.Name)
}

func anyCovers(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return p == name || covers(p, name) })
}

// text is the description of the policy for the model.
func (p Policy) text() string {
	var b strings.Builder
	b.WriteString("TOOL_POLICY\n")
	if p.FS.Enabled {
		fmt.Fprintf(&b, "- fs: enabled (maxReadBytes=%d, maxWriteBytes=%d)\n", p.FS.MaxReadBytes, p.FS.MaxWriteBytes)
	} else {
		b.WriteString("- fs: disabled\n")
	}
	if p.MCP.Enabled && len(p.MCP.AllowedServers) > 0 {
		fmt.Fprintf(&b, "- mcp: enabled (allowedServers=%s)\n", strings.Join(p.MCP.AllowedServers, ", "))
	} else {
		b.WriteString("- mcp: disabled\n")
	}
	b.WriteString("- ui_ask_user: enabled\n")
	b.WriteString("Only the tools of this request exist. A refused call is answered with ok=false and a code; do not repeat it unchanged.")
	return b.String()
}
