package records_test

import (
	"context"
	"errors"
	"testing"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

type lamp struct {
	Level int            `json:"level"`
	Tags  map[string]int `json:"tags,omitempty"`
}

func at(level int) func(*lamp, uint64) (*lamp, error) {
	return func(*lamp, uint64) (*lamp, error) { return &lamp{Level: level}, nil }
}

func TestChange(t *testing.T) {
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		before *lamp
		edit   func(old *lamp, revision uint64) (*lamp, error)
		after  *lamp
		writes int
		err    error
	}{
		"creates":                      {nil, at(1), &lamp{Level: 1}, 1, nil},
		"replaces":                     {&lamp{Level: 1}, at(2), &lamp{Level: 2}, 1, nil},
		"removes":                      {&lamp{Level: 1}, func(*lamp, uint64) (*lamp, error) { return nil, nil }, nil, 1, nil},
		"leaves nothing as it is":      {nil, func(*lamp, uint64) (*lamp, error) { return nil, nil }, nil, 0, nil},
		"leaves the record as it is":   {&lamp{Level: 1}, func(old *lamp, _ uint64) (*lamp, error) { return old, nil }, &lamp{Level: 1}, 0, nil},
		"does not write an equal one":  {&lamp{Level: 1}, at(1), &lamp{Level: 1}, 0, nil},
		"does not write what is empty": {&lamp{}, func(*lamp, uint64) (*lamp, error) { return &lamp{Tags: map[string]int{}}, nil }, &lamp{}, 0, nil},
		"ends with the edit's error":   {&lamp{Level: 1}, func(*lamp, uint64) (*lamp, error) { return &lamp{Level: 2}, refused }, &lamp{Level: 1}, 0, refused},
	} {
		t.Run(name, func(t *testing.T) {
			table := recordstest.New[lamp]()
			written := 0
			if c.before != nil {
				put(t, table, c.before)
				written = 1
			}
			value, revision, err := records.Change(t.Context(), table, "a", c.edit)
			if !errors.Is(err, c.err) {
				t.Fatal(err)
			}
			found, held, _ := table.Get("a")
			if !records.Same(found, c.after) || table.Writes() != written+c.writes {
				t.Errorf("%+v after %d writes, want %+v after %d", found, table.Writes(), c.after, written+c.writes)
			}
			if err == nil && (!records.Same(value, found) || found != nil && revision != held) {
				t.Errorf("says %+v at %d, has %+v at %d", value, revision, found, held)
			}
		})
	}
}

// Whatever somebody else does between the reading and the writing, the edit
// sees it.
func TestChangeSeesWhatOthersDid(t *testing.T) {
	more := func(old *lamp, _ uint64) (*lamp, error) {
		if old == nil {
			return &lamp{Level: 100}, nil
		}
		return &lamp{Level: old.Level + 1}, nil
	}
	less := func(old *lamp, _ uint64) (*lamp, error) { return nil, nil }
	for name, c := range map[string]struct {
		there bool
		other func(t *testing.T, table *recordstest.Memory[lamp])
		edit  func(*lamp, uint64) (*lamp, error)
		want  *lamp
	}{
		"changed":         {true, func(t *testing.T, table *recordstest.Memory[lamp]) { put(t, table, &lamp{Level: 7}) }, more, &lamp{Level: 8}},
		"removed":         {true, remove, more, &lamp{Level: 100}},
		"created":         {false, func(t *testing.T, table *recordstest.Memory[lamp]) { put(t, table, &lamp{Level: 7}) }, more, &lamp{Level: 8}},
		"both remove":     {true, remove, less, nil},
		"changed, remove": {true, func(t *testing.T, table *recordstest.Memory[lamp]) { put(t, table, &lamp{Level: 7}) }, less, nil},
	} {
		t.Run(name, func(t *testing.T) {
			table := recordstest.New[lamp]()
			if c.there {
				put(t, table, &lamp{Level: 1})
			}
			table.Before(func(string) { c.other(t, table) })
			if _, _, err := records.Change(t.Context(), table, "a", c.edit); err != nil {
				t.Fatal(err)
			}
			if found, _, _ := table.Get("a"); !records.Same(found, c.want) {
				t.Errorf("%+v, want %+v", found, c.want)
			}
		})
	}
}

func TestChangeGivesUp(t *testing.T) {
	table := recordstest.New[lamp]()
	level := 0
	_, _, err := records.Change(t.Context(), table, "a", func(*lamp, uint64) (*lamp, error) {
		level++
		mine := level
		table.Before(func(string) { put(t, table, &lamp{Level: -mine}) })
		return &lamp{Level: mine}, nil
	})
	if protocol.CodeOf(err) != protocol.RevisionConflict || level != records.Attempts {
		t.Errorf("%v after %d attempts", err, level)
	}
}

func TestChangeReportsABrokenTable(t *testing.T) {
	table := recordstest.New[lamp]()
	table.Break(protocol.Errorf(protocol.StoreUnavailable, "away"))
	if _, _, err := records.Change(t.Context(), table, "a", at(1)); protocol.CodeOf(err) != protocol.StoreUnavailable {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	table.Break(nil)
	if _, _, err := records.Change(ctx, table, "a", at(1)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func put(t *testing.T, table records.Table[lamp], l *lamp) {
	t.Helper()
	if _, err := table.Put(t.Context(), "a", l); err != nil {
		t.Error(err)
	}
}

func remove(t *testing.T, table *recordstest.Memory[lamp]) {
	t.Helper()
	if err := table.Delete(t.Context(), "a", 0); err != nil {
		t.Error(err)
	}
}
