package vfstest

import (
	"context"

	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// Atomic makes changes of a table one after the other, if none has changed
// before the first.
func Atomic(m *recordstest.Memory[vfs.Record]) func(context.Context, []vfs.Change) error {
	return func(ctx context.Context, changes []vfs.Change) error {
		for _, c := range changes {
			if _, revision, _ := m.Get(c.Key); revision != c.Revision {
				return protocol.Errorf(protocol.RevisionConflict, "%s has changed", c.Key)
			}
		}
		for _, c := range changes {
			if err := replace(ctx, m, c); err != nil {
				return err
			}
		}
		return nil
	}
}

func replace(ctx context.Context, m *recordstest.Memory[vfs.Record], c vfs.Change) error {
	if c.Revision == 0 {
		_, err := m.Create(ctx, c.Key, c.Record)
		return err
	}
	_, err := m.Update(ctx, c.Key, c.Record, c.Revision)
	return err
}
