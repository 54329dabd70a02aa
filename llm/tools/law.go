package tools

import (
	"slices"
)

// A Law decides which tools no model may call for a principal, with any arguments. A
// tool that is forbidden with some arguments only, or for a while, is offered, and its
// calls are judged one by one.
type Law interface {
	// Forbids reports whether models may not call the tool in the environment.
	Forbids(env Environment, t *Tool) bool
	// Standing is a comparable value: equal ones, by ==, have equal answers of Forbids.
	// It changes whenever an answer may change.
	Standing(env Environment) any
	// Revision changes whenever the law changes for any principal.
	Revision() string
}

// Under sets the law of the catalogue. It must be called before any selection.
func (c *Catalogue) Under(law Law) *Catalogue {
	c.law = law
	return c
}

// Law is the law of the catalogue, nil if there is none.
func (c *Catalogue) Law() Law { return c.law }

// A judgment is the law's verdict on some tools, for principals of one standing.
type judgment struct {
	standing  any
	tools     []*Tool
	forbidden []*Tool
}

func (j *judgment) is(standing any, tools []*Tool) bool {
	return j.standing == standing && slices.Equal(j.tools, tools)
}

// judge returns the tools that the law forbids to models. It asks the law once for each
// standing, and keeps its recent answers.
func (c *Catalogue) judge(env Environment, found []*Tool) []*Tool {
	if c.law == nil || env.ByHand {
		return nil
	}
	standing := c.law.Standing(env)
	c.mu.Lock()
	i := slices.IndexFunc(c.judged, func(j *judgment) bool { return j.is(standing, found) })
	if i >= 0 {
		j := c.judged[i]
		copy(c.judged[1:i+1], c.judged[:i])
		c.judged[0] = j
		c.mu.Unlock()
		return j.forbidden
	}
	c.mu.Unlock()

	j := &judgment{standing: standing, tools: found}
	for _, t := range found {
		if c.law.Forbids(env, t) {
			j.forbidden = append(j.forbidden, t)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.judged = slices.Insert(c.judged, 0, j)
	if len(c.judged) > maxBoxes {
		c.judged[maxBoxes] = nil
		c.judged = c.judged[:maxBoxes]
	}
	return j.forbidden
}
