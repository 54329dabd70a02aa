package servers

import (
	"errors"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bridges may use each other as MCP servers, and one may be configured to use itself.
// Three rules prevent cycles: a bridge does not use itself, it ignores tools that
// another bridge has from a server of its own, and calls carry the number of their
// enclosing calls.

// The marks by which bridges recognise each other.
const (
	capabilityKey = "aibridge"        // experimental capability of the server
	sourceKey     = "aibridge/source" // in the _meta of a tool
	depthKey      = "aibridge/depth"  // in the _meta of a call
)

var errSelf = errors.New("the server is this bridge itself, whose tools it has already")

// isSelf reports whether a server is this bridge.
func (s *Service) isSelf(hello *sdk.InitializeResult) bool {
	if s.opts.Instance == "" || hello == nil || hello.Capabilities == nil {
		return false
	}
	bridge, _ := hello.Capabilities.Experimental[capabilityKey].(map[string]any)
	return bridge["instance"] == s.opts.Instance
}

// relayed reports whether another bridge has a tool from a server of its own.
func relayed(t *sdk.Tool) bool { return relayedMeta(t.Meta) }

func relayedMeta(meta sdk.Meta) bool {
	source, _ := meta[sourceKey].(string)
	return strings.HasPrefix(source, sourcePrefix)
}
