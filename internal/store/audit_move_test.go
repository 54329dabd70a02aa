package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// A memoryTrail is a trail beside the store.
type memoryTrail struct {
	blocks [][]byte
	most   int // that it takes before it fails, 0 for any
}

func (m *memoryTrail) Read(_ context.Context, f func(uint64, []byte) error) error {
	for i, b := range m.blocks {
		if err := f(uint64(i+1), b); err != nil {
			return err
		}
	}
	return nil
}

func (m *memoryTrail) HasEntries() bool { return len(m.blocks) > 0 }

func (m *memoryTrail) Import(parts [][]byte) error {
	if m.most > 0 && len(m.blocks) >= m.most {
		return errors.New("full")
	}
	for _, p := range parts {
		m.blocks = append(m.blocks, bytes.Clone(p))
	}
	return nil
}

// TestATrailIsMovedOutOfItsStream breaks off in the middle once.
func TestATrailIsMovedOutOfItsStream(t *testing.T) {
	s := open(t, embedded(t, t.TempDir()), Options{})
	log := openAudit(t, s, "b")
	var want [][]byte
	for i := range 40 {
		group := append([]byte(importedMagic), bytes.Repeat([]byte(fmt.Sprint(i, " ")), 8000)...)
		want = append(want, group)
		if err := log.Append(t.Context(), group); err != nil {
			t.Fatal(err)
		}
	}
	to := &memoryTrail{most: 20}
	taken := func() (int, error) { return len(to.blocks), nil }
	synced := 0
	sync := func() error { synced++; return nil }
	if _, err := s.MoveTrail(t.Context(), "b", to, taken, sync); err == nil || synced != 0 {
		t.Fatalf("%v, synced %d times", err, synced)
	}
	to.most = 0
	if _, err := s.MoveTrail(t.Context(), "b", to, taken, sync); err != nil || synced != 1 {
		t.Fatalf("%v, synced %d times", err, synced)
	}
	if !slices.EqualFunc(to.blocks, want, bytes.Equal) {
		t.Errorf("%d of %d groups were moved", len(to.blocks), len(want))
	}
	if n, err := s.MoveTrail(t.Context(), "b", to, taken, sync); n != 0 || err != nil || synced != 1 {
		t.Errorf("again: %d, %v", n, err)
	}
}

// TestATrailBesideTheStoreIsBackedUpAndRestoredWithIt keeps one that has entries.
func TestATrailBesideTheStoreIsBackedUpAndRestoredWithIt(t *testing.T) {
	s := open(t, embedded(t, t.TempDir()), Options{})
	from := &memoryTrail{blocks: [][]byte{[]byte(blockMagic + "one"), []byte(importedMagic + "two"), []byte(importedMagic + "three")}}
	s.UseTrail("b", from)
	var archive bytes.Buffer
	if m, err := s.Backup(t.Context(), &archive, BackupOptions{}); err != nil || m.Groups != 3 {
		t.Fatalf("%+v, %v", m, err)
	}
	for _, to := range []*memoryTrail{{}, {blocks: [][]byte{[]byte("mine")}}} {
		into := open(t, embedded(t, t.TempDir()), Options{})
		into.UseTrail("b", to)
		kept := to.HasEntries()
		if _, err := into.Restore(t.Context(), bytes.NewReader(archive.Bytes()), false, nil); err != nil {
			t.Fatal(err)
		}
		if kept != (len(to.blocks) == 1) || !kept && !slices.EqualFunc(to.blocks, from.blocks, bytes.Equal) {
			t.Errorf("restored %q", to.blocks)
		}
	}
}
