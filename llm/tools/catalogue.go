package tools

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/aibridge/aibridge/protocol"
)

// A Catalogue holds the tools of all sources. It is safe for use by many goroutines.
type Catalogue struct {
	sources []Source
	law     Law // nil for none

	mu     sync.Mutex
	boxes  []*selection // recent ones, the latest first
	judged []*judgment  // recent ones, the latest first
}

// A Finder is a [Source] that finds a tool without listing all.
type Finder interface {
	Source
	// Find returns the tool with exactly the name, if there is one that the
	// environment's principal may call.
	Find(ctx context.Context, env Environment, name string) (*Tool, bool)
}

// New returns a catalogue of sources. Of two tools with the same name that of the
// earlier source counts, so sources that other principals can add to come last.
func New(sources ...Source) *Catalogue { return &Catalogue{sources: sources} }

// With returns the catalogue with further sources, which precede the others.
func (c *Catalogue) With(sources ...Source) *Catalogue {
	return New(slices.Concat(sources, c.sources)...).Under(c.law)
}

// Revision changes whenever the tools of any principal may have changed; "" is unequal
// to every revision, itself included.
func (c *Catalogue) Revision() string {
	var all []byte
	if c.law != nil {
		all = append(strconv.AppendQuote(all, c.law.Revision()), ' ')
	}
	for _, s := range c.sources {
		r := s.Revision()
		if r == "" {
			return ""
		}
		all = append(strconv.AppendQuote(all, r), ' ')
	}
	return string(all)
}

// Select returns the tools that the environment's principal may call and whose names
// fit one of the patterns: "*", "thermostat.*", a name. The error for a name without *
// and without a tool is 3001. Tools that no model may call, by their declaration or by
// law, are left out, unless a person runs the tools; the error for the name of one is
// 2003.
//
// A source that fails is left out, and so is a tool with a faulty declaration or with
// the name of another one; [Toolbox.Warnings] lists them. An equal selection returns
// the same toolbox.
func (c *Catalogue) Select(ctx context.Context, env Environment, patterns []string) (*Toolbox, error) {
	s := selection{patterns: patterns, byHand: env.ByHand}
	if !c.named(ctx, env, &s) {
		if err := c.list(ctx, env, &s); err != nil {
			return nil, err
		}
	}
	s.forbidden = c.judge(env, s.found)
	if box, ok := c.again(&s); ok {
		return box, nil
	}
	box, err := c.open(&s)
	if err != nil {
		return nil, err
	}
	s.box = box
	s.patterns = slices.Clone(patterns)
	c.keep(&s)
	return box, nil
}

// list adds all tools that a principal may see to a selection.
func (c *Catalogue) list(ctx context.Context, env Environment, s *selection) error {
	for _, source := range c.sources {
		tools, err := source.Tools(ctx, env)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			s.failures = append(s.failures, protocol.AsError(err).Message)
		default:
			s.found = append(s.found, tools...)
		}
	}
	return nil
}

// named adds the tools of a selection by full names alone, from sources that find them
// without listing all. It reports false if a pattern is no full name, or a name is not
// found so.
func (c *Catalogue) named(ctx context.Context, env Environment, s *selection) bool {
	if len(s.patterns) == 0 {
		return true
	}
	for _, name := range s.patterns {
		if strings.Contains(name, "*") {
			return false
		}
	}
	for _, name := range s.patterns {
		t, ok := c.Find(ctx, env, name)
		if !ok {
			s.found = nil
			return false
		}
		if !slices.Contains(s.found, t) {
			s.found = append(s.found, t)
		}
	}
	return true
}

// Find returns the tool with exactly the name, if the environment's principal
// may call it.
func (c *Catalogue) Find(ctx context.Context, env Environment, name string) (*Tool, bool) {
	for _, source := range c.sources {
		if f, ok := source.(Finder); ok {
			if t, ok := f.Find(ctx, env, name); ok {
				return t, t.prepare().err == nil
			}
			continue
		}
		list, err := source.Tools(ctx, env)
		if err != nil {
			continue
		}
		for _, t := range list {
			if t.Name == name {
				return t, t.prepare().err == nil
			}
		}
	}
	return nil, false
}
