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

// Warnings say which tools were left out, and why.
func (b *Toolbox) Warnings() []string { return b.warnings }

// Revision is the same for the same declarations, whichever principal they were selected
// for, so that everything made of them may be kept.
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

// Find returns the tool with the name. The case of its letters does not
// matter: no two differ in nothing else.
func (b *Toolbox) Find(name string) (*Tool, bool) {
	t, ok := b.byName[strings.ToLower(name)]
	return t, ok
}

// today looks a tool of the box up anew. It fails if the caller has no such tool
// any more, or if it is not declared as it was when it was offered: what a model
// decided to call, and a person agreed to, is not what would be called.
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

// Spelling is the name of a tool as a model is offered it, for what it is told
// of the tool.
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

// ChatTools are the tools as a model is offered them.
func (b *Toolbox) ChatTools() []chat.Tool { return ChatTools(b.tools) }

// ChatTools are some tools as a model is offered them: in the order of their
// names, whatever theirs is, so that a provider's prompt cache keeps.
func ChatTools(list []*Tool) []chat.Tool {
	offered := make([]chat.Tool, len(list))
	for i, t := range list {
		offered[i] = t.prepare().offer
	}
	slices.SortFunc(offered, func(a, b chat.Tool) int { return cmp.Compare(a.Name, b.Name) })
	return offered
}

// maxNearest is the number of names that a misspelt one is answered with.
const maxNearest = 3

// Nearest are the names of tools that a misspelt one may have meant, the
// likeliest first.
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
