package tools

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// A selection is the material of a toolbox.
type selection struct {
	found     []*Tool // of all sources, in their order
	forbidden []*Tool // of these, by law
	failures  []string
	patterns  []string
	byHand    bool // for a person, and not for a model
	box       *Toolbox
}

// maxBoxes is the number of toolboxes that a catalogue keeps, so that repeated
// selections share everything derived from a box.
const maxBoxes = 32

func (s *selection) same(o *selection) bool {
	return s.byHand == o.byHand && slices.Equal(s.found, o.found) && slices.Equal(s.forbidden, o.forbidden) && slices.Equal(s.patterns, o.patterns) && slices.Equal(s.failures, o.failures)
}

// again returns the toolbox of an equal earlier selection.
func (c *Catalogue) again(s *selection) (*Toolbox, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.boxes, s.same)
	if i < 0 {
		return nil, false
	}
	found := c.boxes[i]
	copy(c.boxes[1:i+1], c.boxes[:i])
	c.boxes[0] = found
	return found.box, true
}

func (c *Catalogue) keep(s *selection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.boxes = slices.Insert(c.boxes, 0, s)
	if len(c.boxes) > maxBoxes {
		c.boxes[maxBoxes] = nil
		c.boxes = c.boxes[:maxBoxes]
	}
}

// open makes the toolbox.
func (c *Catalogue) open(s *selection) (*Toolbox, error) {
	b := &Toolbox{byName: make(map[string]*Tool, len(s.found)), warnings: slices.Clone(s.failures), from: c}
	all := make([]*Tool, 0, len(s.found))
	for _, t := range s.found {
		if b.take(t) {
			all = append(all, t)
		}
	}
	if !s.byHand {
		all = b.withhold(all, s.forbidden)
	}
	if err := b.choose(all, s.patterns); err != nil {
		return nil, err
	}
	return b, nil
}

// take adds a tool to the names of a box. It reports false, with a warning, for a
// faulty declaration or a taken name.
func (b *Toolbox) take(t *Tool) bool {
	if err := t.prepare().err; err != nil {
		b.warn("%s", err)
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

// A withheld tool is one that no model may call.
type withheld struct {
	tool *Tool
	why  string
}

// withhold removes the tools that no model may call. Their names stay taken, so that no
// other tool gets them.
func (b *Toolbox) withhold(all, forbidden []*Tool) []*Tool {
	byLaw := make(map[*Tool]bool, len(forbidden))
	for _, t := range forbidden {
		byLaw[t] = true
	}
	return slices.DeleteFunc(all, func(t *Tool) bool {
		var why string
		switch {
		case t.Risk == RiskDeny:
			why = fmt.Sprintf("it declares the risk %q", cmp.Or(t.RiskWords, t.Risk))
		case byLaw[t]:
			why = "policy forbids it"
		default:
			return false
		}
		if b.withheld == nil {
			b.withheld = make(map[string]withheld)
		}
		key := strings.ToLower(t.Name)
		b.withheld[key] = withheld{t, why}
		delete(b.byName, key)
		return true
	})
}

// forbidden is the error for the name of a tool that no model may call.
func (w *withheld) forbidden() *protocol.Error {
	err := protocol.Errorf(protocol.PermissionDenied, "no model may call %s: %s", w.tool.Name, w.why)
	if w.tool.Source == "skill" {
		err = protocol.Errorf(protocol.PermissionDenied, "no model may call %s: %s; a person can, by skill.invoke", w.tool.Name, w.why)
	}
	return err.With("reason", "denied").With("param_name", "tools")
}

// choose reduces a box to the tools whose names match the patterns.
func (b *Toolbox) choose(all []*Tool, patterns []string) error {
	meant := make(map[*Tool]bool, len(all))
	for _, pattern := range patterns {
		if !strings.Contains(pattern, "*") {
			t, ok := b.Find(pattern)
			if w, kept := b.withheld[strings.ToLower(pattern)]; !ok && kept {
				return w.forbidden()
			}
			if !ok {
				return missing(pattern, &Toolbox{tools: all, byName: b.byName})
			}
			meant[t] = true
			continue
		}
		fits := false
		for _, t := range all {
			if Matches(pattern, t.Name) {
				meant[t], fits = true, true
			}
		}
		if !fits {
			b.warnOfPattern(pattern)
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

// mostNamed is the greatest number of withheld tools in the warning of a pattern
// without other matches.
const mostNamed = 3

// warnOfPattern adds a warning of a pattern without matches.
func (b *Toolbox) warnOfPattern(pattern string) {
	named := 0
	for _, key := range slices.Sorted(maps.Keys(b.withheld)) {
		if w := b.withheld[key]; Matches(pattern, w.tool.Name) && named < mostNamed {
			b.warn("%s", w.forbidden().Message)
			named++
		}
	}
	if named == 0 {
		b.warn("no tool fits %q", pattern)
	}
}

// missing is the error for the name of an unknown tool.
func missing(name string, all *Toolbox) error {
	err := protocol.Errorf(protocol.NotFound, "there is no tool %.100q", name).With("param_name", "tools")
	if near := all.Nearest(name); len(near) > 0 {
		err = err.With("did_you_mean", near[0])
	}
	return err
}

func (b *Toolbox) warn(format string, args ...any) {
	b.warnings = append(b.warnings, fmt.Sprintf(format, args...))
}
