package llm

import (
	"context"
	"iter"
)

// forgetful is a table that keeps nothing.
type forgetful struct{}

func (forgetful) All() iter.Seq2[string, *Spent]                      { return func(func(string, *Spent) bool) {} }
func (forgetful) Put(context.Context, string, *Spent) (uint64, error) { return 0, nil }
func (forgetful) Delete(context.Context, string, uint64) error        { return nil }
