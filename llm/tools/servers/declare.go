package servers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/tools"
)

// The prefixes of the names of servers' tools, and of the names of their sources.
const (
	prefix       = "mcp."
	sourcePrefix = "mcp:"
)

// The bounds of the declarations of a server.
const (
	maxTools       = 512
	maxDeclaration = 64 << 10 // bytes of JSON of one tool
)

// A declared is a tool in the declaration of its server.
type declared struct {
	*sdk.Tool
	input, output json.RawMessage
	hash          string // of the whole declaration, hexadecimal
}

// declare reads a server's declaration of a tool. One that is too long is ignored.
func declare(t *sdk.Tool) (*declared, bool) {
	if t == nil {
		return nil, false
	}
	whole, err := json.Marshal(t) // objects are written in the order of their keys
	if err != nil || len(whole) > maxDeclaration || t.Name == "" {
		return nil, false
	}
	d := &declared{Tool: t}
	if d.input, err = json.Marshal(t.InputSchema); err != nil {
		return nil, false
	}
	if t.OutputSchema != nil {
		if d.output, err = json.Marshal(t.OutputSchema); err != nil {
			return nil, false
		}
	}
	sum := sha256.Sum256(whole)
	d.hash = hex.EncodeToString(sum[:])
	return d, true
}

// wanted reports whether the configuration includes a tool.
func (c *Config) wanted(name string) bool { return wantedBy(c.Tools, name) }

// wantedBy reports whether a name fits one of the patterns, if there are any.
func wantedBy(patterns []string, name string) bool {
	for _, pattern := range patterns {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			return true
		}
	}
	return len(patterns) == 0
}

// tool converts a declaration to a tool of the catalogue. Without trust in the server
// the tool counts as acting on the world.
func (l *connection) tool(d *declared) *tools.Tool {
	t := &tools.Tool{
		Declaration: tools.Declaration{
			Name:        prefix + l.config.Name + "." + d.Name,
			Title:       d.Title,
			Description: d.Description,
			Schema:      d.input,
			Output:      d.output,
			Effect:      commands.Act,
			Risk:        l.config.Risk,
			Untrusted:   true,
			Source:      sourcePrefix + l.config.Name,
			Timeout:     l.config.timeout(),
		},
		Run: func(ctx context.Context, x *tools.Execution) (tools.Output, error) {
			return l.service.run(ctx, x, l.config.Name, d.Name)
		},
		Asks:   l.config.Elicitation || l.config.Sampling.On && l.config.Sampling.By == byCaller,
		Prompt: true, // like every command
	}
	if hints := d.Annotations; l.config.Trusted && hints != nil {
		switch {
		case hints.ReadOnlyHint:
			t.Effect, t.Idempotent = commands.Read, true
		case hints.DestructiveHint != nil && *hints.DestructiveHint:
			t.Risk = tools.RiskAsk
		}
		t.Idempotent = t.Idempotent || hints.IdempotentHint
	}
	return t
}
