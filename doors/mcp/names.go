package mcp

import (
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/llm/wire"
)

// charset holds the characters that names of tools may have in MCP.
var charset = wire.Charset{Extra: ".", Max: 128}

// namesOf maps the names of a box's tools to those for clients, and back. Only names
// with forbidden characters, or too many, are changed.
func namesOf(box *tools.Toolbox) *wire.Names {
	all := box.Tools()
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.Name
	}
	return wire.NewNames(charset, names...)
}
