package tools

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/aibridge/aibridge/commands/schema"
	"github.com/aibridge/aibridge/protocol"
)

// A Catalogue is every tool there is, from all sources. It is safe for use by
// many goroutines.
type Catalogue struct {
	sources []Source

	mu    sync.Mutex
	boxes []*Toolbox // made lately, the latest first
}

// maxBoxes is how many toolboxes a catalogue keeps: those that are asked for
// again have what was derived from them already.
const maxBoxes = 32

// New makes a catalogue. When two sources have a tool of the same name, the
// one that stands first has it; so those that others can add to come last.
func New(sources ...Source) *Catalogue { return &Catalogue{sources: sources} }

// With returns the catalogue with sources of one's own, which stand before
// the others.
func (c *Catalogue) With(sources ...Source) *Catalogue {
	return New(slices.Concat(sources, c.sources)...)
}

// Revision changes whenever anybody's tools may have changed; "" is never the
// same as before.
func (c *Catalogue) Revision() string {
	var all strings.Builder
	for _, s := range c.sources {
		r := s.Revision()
		if r == "" {
			return ""
		}
		fmt.Fprintf(&all, "%d:%s", len(r), r)
	}
	return all.String()
}

// Select returns the tools that the environment's principal may call and
// whose names fit one of the patterns: "*", "thermostat.*", a name. A name
// without * that there is no tool of is 3001.
//
// A source that fails is left out, and so is a tool that is declared wrongly
// or whose name another has; [Toolbox.Warnings] tells.
func (c *Catalogue) Select(ctx context.Context, env Environment, patterns []string) (*Toolbox, error) {
	b := &Toolbox{byName: make(map[string]*Tool)}
	var all []*Tool
	for _, s := range c.sources {
		list, err := s.Tools(ctx, env)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			b.warn("%s", protocol.AsError(err).Message)
			continue
		}
		for _, t := range list {
			if b.take(t) {
				all = append(all, t)
			}
		}
	}
	if err := b.choose(all, patterns); err != nil {
		return nil, err
	}
	return c.kept(b), nil
}

// take enters a tool unless something is wrong with it.
func (b *Toolbox) take(t *Tool) bool {
	p := t.prepare()
	if p.err != nil {
		b.warn("%s", p.err)
		return false
	}
	key := strings.ToLower(t.Name)
	if other, taken := b.byName[key]; taken {
		b.warn("tool %q of %s is left out: the name is that of %q of %s", t.Name, t.Source, other.Name, other.Source)
		return false
	}
	b.byName[key] = t
	return true
}

// choose keeps of all tools those that the patterns mean.
func (b *Toolbox) choose(all []*Tool, patterns []string) error {
	meant := make(map[*Tool]bool)
	for _, pattern := range patterns {
		if !strings.Contains(pattern, "*") {
			t, ok := b.Find(pattern)
			if !ok {
				return b.missing(pattern)
			}
			meant[t] = true
			continue
		}
		before := len(meant)
		for _, t := range all {
			if matches(pattern, t.Name) {
				meant[t] = true
			}
		}
		if len(meant) == before {
			b.warn("no further tool fits %q", pattern)
		}
	}
	for _, t := range all {
		if meant[t] {
			b.tools = append(b.tools, t)
		} else {
			delete(b.byName, strings.ToLower(t.Name))
		}
	}
	slices.SortFunc(b.tools, func(x, y *Tool) int { return cmp.Compare(x.Name, y.Name) })
	return nil
}

func (b *Toolbox) missing(name string) error {
	err := protocol.Errorf(protocol.NotFound, "there is no tool %.100q", name).With("param_name", "tools")
	if near, ok := schema.Nearest(name, b.lowerNames()); ok {
		err = err.With("did_you_mean", b.byName[near].Name)
	}
	return err
}

// kept returns an earlier toolbox that is the same, if there is one.
func (c *Catalogue) kept(b *Toolbox) *Toolbox {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, old := range c.boxes {
		if slices.Equal(old.tools, b.tools) && slices.Equal(old.warnings, b.warnings) {
			copy(c.boxes[1:i+1], c.boxes[:i])
			c.boxes[0] = old
			return old
		}
	}
	if len(c.boxes) < maxBoxes {
		c.boxes = append(c.boxes, nil)
	}
	copy(c.boxes[1:], c.boxes)
	c.boxes[0] = b
	return b
}

// Fixed is a source of tools that are always there, for everybody. They are
// registered, see [Registry].
func Fixed(list ...*Tool) (Source, error) {
	r := new(Registry)
	for _, t := range list {
		if _, err := r.Register(t); err != nil {
			return nil, err
		}
	}
	return r, nil
}
