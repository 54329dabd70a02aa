package tools

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A Registry is a [Source] of tools that are registered one by one, for all principals.
// The zero value is ready to use. It is safe for use by many goroutines.
type Registry struct {
	mu       sync.RWMutex
	list     []*Tool
	names    map[string]string // as registered, by lower case
	revision int
}

// Register adds a tool. It fails if the declaration is faulty or another tool has the
// name, regardless of case. Warnings name oddities of the declaration.
func (r *Registry) Register(t *Tool) (warnings []string, err error) {
	p := t.prepare()
	if p.err != nil {
		return nil, p.err
	}
	if t.Run == nil {
		return nil, fmt.Errorf("tool %q does nothing", t.Name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := strings.ToLower(t.Name)
	if other, taken := r.names[key]; taken {
		return nil, fmt.Errorf("tool %q is there already, as %q", t.Name, other)
	}
	if r.names == nil {
		r.names = make(map[string]string)
	}
	r.names[key] = t.Name
	r.list = append(slices.Clip(r.list), t)
	r.revision++
	return p.warnings, nil
}

// Tools implements [Source].
func (r *Registry) Tools(context.Context, Environment) ([]*Tool, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.list, nil
}

// Revision implements [Source].
func (r *Registry) Revision() string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return strconv.Itoa(r.revision)
}

// Fixed returns a source of fixed tools for all principals. It fails as
// [Registry.Register] does.
func Fixed(list ...*Tool) (Source, error) {
	r := new(Registry)
	for _, t := range list {
		if _, err := r.Register(t); err != nil {
			return nil, err
		}
	}
	return r, nil
}
