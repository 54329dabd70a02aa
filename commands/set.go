package commands

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// A Set is every command a bridge knows. It is immutable.
type Set struct {
	sorted []*Command
	byName map[string]*Command // names and aliases
}

// NewSet gathers commands. It fails on what is wrong with any declaration,
// all of it in one error.
func NewSet(commands ...Command) (*Set, error) {
	s := &Set{byName: make(map[string]*Command, len(commands))}
	var errs []error
	for i := range commands {
		c := &commands[i]
		if c.err != nil {
			errs = append(errs, fmt.Errorf("command %s: %w", c.Name, c.err))
		}
		s.sorted = append(s.sorted, c)
		for _, name := range append([]string{c.Name}, c.Aliases...) {
			if _, taken := s.byName[name]; taken {
				errs = append(errs, fmt.Errorf("command %s: declared twice", name))
			}
			s.byName[name] = c
		}
	}
	slices.SortFunc(s.sorted, func(a, b *Command) int { return strings.Compare(a.Name, b.Name) })
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
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

func family(name string) string {
	first, _, _ := strings.Cut(name, ".")
	return first
}
