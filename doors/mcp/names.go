package mcp

import "github.com/aibridge/aibridge/llm/wire"

// charset is what names of tools may consist of in MCP.
var charset = wire.Charset{Extra: ".", Max: 128}

// namesOf carries the names of a box's tools to clients and back. Only those
// with other characters, or more of them, are changed.
func namesOf(box Box) *wire.Names {
	all := box.Tools()
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.Name
	}
	return wire.NewNames(charset, names...)
}
