package commands

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/commands/schema"
)

// A Set is every command a bridge knows from its start. It is immutable.
type Set struct {
	sorted []*Command
	byName map[string]*Command // names and aliases
}

// NewSet gathers commands. Its error names every fault of every declaration.
func NewSet(commands ...Command) (*Set, error) {
	s := &Set{byName: make(map[string]*Command, len(commands))}
	var errs []error
	for _, c := range commands {
		errs = append(errs, c.check(), s.add(&c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	slices.SortFunc(s.sorted, func(a, b *Command) int { return strings.Compare(a.Name, b.Name) })
	return s, nil
}

func (s *Set) add(c *Command) error {
	s.sorted = append(s.sorted, c)
	for _, name := range append([]string{c.Name}, c.Aliases...) {
		if other, taken := s.byName[name]; taken {
			return fmt.Errorf("command %s: the name %s is already that of %s", c.Name, name, other.Name)
		}
		s.byName[name] = c
	}
	return nil
}

// Find returns the command with the name or alias.
func (s *Set) Find(name string) (*Command, bool) {
	c, ok := s.byName[name]
	return c, ok
}

// All yields the commands in the order of their names.
func (s *Set) All() iter.Seq[*Command] { return slices.Values(s.sorted) }

// Len is the number of commands.
func (s *Set) Len() int { return len(s.sorted) }

// Nearest returns the command a misspelt name probably meant, if there is one.
func (s *Set) Nearest(name string) (string, bool) {
	return schema.Nearest(name, slices.Values(slices.Sorted(maps.Keys(s.byName))))
}

// CheckMeanings names every field of params and results without a doc tag. A set
// works without them; the documentation of a bridge does not.
func (s *Set) CheckMeanings() error {
	var errs []error
	for c := range s.All() {
		for _, f := range slices.Concat(c.params, c.results) {
			if strings.TrimSpace(f.Doc) == "" {
				errs = append(errs, fmt.Errorf("command %s: the field %s has no meaning: say in its tag doc what it holds, in which unit, and when it is absent", c.Name, f.Path))
			}
		}
	}
	return errors.Join(errs...)
}

// hasFamily reports whether a built-in command begins with family and a dot.
func (s *Set) hasFamily(name string) bool {
	return slices.ContainsFunc(s.sorted, func(c *Command) bool { return c.Family() == name })
}

func family(name string) string {
	first, _, _ := strings.Cut(name, ".")
	return first
}
