package app

import (
	"context"
	"iter"
)

// noTable is a table that is always empty.
type noTable[T any] struct{}

func (noTable[T]) Get(string) (*T, uint64, bool)                              { return nil, 0, false }
func (noTable[T]) All() iter.Seq2[string, *T]                                 { return func(func(string, *T) bool) {} }
func (noTable[T]) Len() int                                                   { return 0 }
func (noTable[T]) Create(context.Context, string, *T) (uint64, error)         { return 0, nil }
func (noTable[T]) Update(context.Context, string, *T, uint64) (uint64, error) { return 0, nil }
func (noTable[T]) Delete(context.Context, string, uint64) error               { return nil }
func (noTable[T]) OnChange(func(string, *T, *T))                              {}
