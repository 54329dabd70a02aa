package tools

import (
	"context"
	"testing"
)

// list is a source of tools that does not change.
type list []*Tool

func (l list) Tools(context.Context, Environment) ([]*Tool, error) { return l, nil }
func (l list) Revision() string                                    { return "1" }

// toolbox is a box of all the tools.
func toolbox(t testing.TB, tools ...*Tool) *Toolbox {
	t.Helper()
	box, err := New(list(tools)).Select(t.Context(), Environment{}, []string{"*"})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(box.Tools()) + len(box.withheld); n != len(tools) {
		t.Fatalf("%d of %d tools were selected: %v", n, len(tools), box.Warnings())
	}
	return box
}
