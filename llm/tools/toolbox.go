package tools

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/aibridge/aibridge/commands/schema"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
	"github.com/aibridge/aibridge/protocol"
)

// A Toolbox is the tools that were selected for a principal. It is immutable.
type Toolbox struct {
	tools    []*Tool // by name
	byName   map[string]*Tool
	withheld map[string]withheld // from models, by the name in lower case
	warnings []string
	from     *Catalogue

	hashed   sync.Once
	revision string
	indexed  sync.Once
	index    *index
	spelled  sync.Once
	names    *wire.Names
}

// Tools lists the tools by name. The list must not be changed.
func (b *Toolbox) Tools() []*Tool { return b.tools }

// Warnings lists the tools that were left out, with the reasons.
func (b *Toolbox) Warnings() []string { return b.warnings }

// Revision is equal for equal declarations, regardless of the principal, so that values
// derived from them can be cached.
func (b *Toolbox) Revision() string {
	b.hashed.Do(func() {
		sum := sha256.New()
		for _, t := range b.tools {
			h := t.Hash()
			sum.Write(h[:])
		}
		b.revision = hex.EncodeToString(sum.Sum(nil)[:16])
	})
	return b.revision
}

// Find returns the tool with the name, regardless of case: no two names differ in case
// alone.
func (b *Toolbox) Find(name string) (*Tool, bool) {
	t, ok := b.byName[strings.ToLower(name)]
	return t, ok
}

// today looks up a tool of the box anew. It fails if the caller has no such tool any
// more, or if its declaration has changed since it was offered: the model's decision
// and a person's approval were about the old one.
func (b *Toolbox) today(ctx context.Context, env Environment, t *Tool) (*Tool, error) {
	if b.from == nil {
		return t, nil
	}
	now, ok := b.from.Find(ctx, env, t.Name)
	switch {
	case !ok:
		return nil, protocol.Errorf(protocol.NotFound, "the tool %q is not there any more", t.Name).With("reason", "changed")
	case now != t && now.Hash() != t.Hash():
		return nil, protocol.Errorf(protocol.PermissionDenied, "the tool %q has changed since it was offered; look at what it does now", t.Name).With("reason", "changed")
	}
	return now, nil
}

// Spelling is the name under which a model is offered a tool, for texts to the model.
func (b *Toolbox) Spelling(name string) string {
	b.spelled.Do(func() {
		all := make([]string, len(b.tools))
		for i, t := range b.tools {
			all[i] = t.Name
		}
		b.names = wire.NewNames(wire.ToolNames, all...)
	})
	return b.names.Encode(name)
}

// ChatTools returns the tools in the form in which a model is offered them.
func (b *Toolbox) ChatTools() []chat.Tool { return ChatTools(b.tools) }

// ChatTools returns tools in the form in which a model is offered them, sorted by name,
// so that a provider's prompt cache stays valid.
func ChatTools(list []*Tool) []chat.Tool {
	offered := make([]chat.Tool, len(list))
	for i, t := range list {
		offered[i] = t.prepare().offer
	}
	slices.SortFunc(offered, func(a, b chat.Tool) int { return cmp.Compare(a.Name, b.Name) })
	return offered
}

// maxNearest is the greatest number of suggestions for a misspelt name.
const maxNearest = 3

// Nearest returns the names of tools that a misspelt name may stand for, the likeliest
// first.
func (b *Toolbox) Nearest(name string) []string {
	near := make([]string, 0, maxNearest)
	if meant, ok := schema.Nearest(name, b.lowerNames()); ok {
		near = append(near, b.byName[meant].Name)
	}
	for _, t := range b.Relevant(name, maxNearest+1) {
		if len(near) < maxNearest && !slices.Contains(near, t.Name) && sharesWord(name, t.Name) {
			near = append(near, t.Name)
		}
	}
	return near
}

// lowerNames yields the names in lower case, in a fixed order.
func (b *Toolbox) lowerNames() iter.Seq[string] {
	return slices.Values(slices.Sorted(maps.Keys(b.byName)))
}
