package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

func TestTheJournalIsBackedUpAndRestored(t *testing.T) {
	j := journal(t, embedded(t, t.TempDir()))
	loaded(t, j)
	write(t, j, "one", set("s/\xff\x00", "not text \xff"), set("r/empty", ""), set("gone", "x"))
	write(t, j, strings.Repeat("long", maxMessage), unset("gone"))
	for i := range 600 {
		write(t, j, "", set(fmt.Sprintf("r/%d", i%100), strings.Repeat("v", 1000)+fmt.Sprint(i)))
	}
	want := loaded(t, j)
	var archive bytes.Buffer
	m, err := j.store.Backup(t.Context(), &archive, BackupOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if m.Values != len(want.values) || m.Entries != len(want.entries) {
		t.Errorf("%d values and %d entries, want %d and %d", m.Values, m.Entries, len(want.values), len(want.entries))
	}

	other := embedded(t, t.TempDir())
	into := journal(t, other)
	loaded(t, into)
	write(t, into, "other", set("other", "x"))
	restore := journal(t, other).store
	_, err = restore.Restore(t.Context(), bytes.NewReader(archive.Bytes()), false, nil)
	wantCode(t, err, protocol.InvalidState) // not empty
	if _, err := restore.Restore(t.Context(), bytes.NewReader(archive.Bytes()), true, nil); err != nil {
		t.Fatal(err)
	}
	into.values.reach.last.Add(1) // an extent like the one that is stored would not be stored again
	if err := into.extent.keep(t.Context()); !errors.Is(err, errConflict) {
		t.Errorf("a process from before the restore stores how far its journal reached: %v", err)
	}
	got := loaded(t, journal(t, other))
	if !maps.Equal(got.values, want.values) || !reflect.DeepEqual(got.entries, want.entries) {
		t.Errorf("%d values and %d entries, want %d and %d, or they differ",
			len(got.values), len(got.entries), len(want.values), len(want.entries))
	}
}

func TestAJournalIsBackedUpWhileItIsWritten(t *testing.T) {
	j := journal(t, embedded(t, t.TempDir()))
	j.values.chunk = 16 << 10
	loaded(t, j)
	write(t, j, "0", set("a", "0"), set("b", "0"))
	ctx, cancel := context.WithCancel(context.Background())
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 1; ctx.Err() == nil; i++ {
			value := fmt.Sprint(i)
			seq, err := j.Write(context.Background(), []KeyedValue{set("a", value), set("b", value)}, []byte(value))
			if err == nil && i%100 == 0 {
				err = j.Trim(context.Background(), seq)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	var archives [5]bytes.Buffer
	for i := range archives {
		if _, err := j.store.Backup(t.Context(), &archives[i], BackupOptions{}); err != nil {
			t.Error(err)
		}
	}
	cancel()
	writer.Wait()
	n := embedded(t, t.TempDir())
	for i := range archives {
		into := journal(t, n)
		if _, err := into.store.Restore(t.Context(), &archives[i], true, nil); err != nil {
			t.Fatal(err)
		}
		got := loaded(t, into)
		if got.values["a"] != got.values["b"] || got.values["a"] == "" {
			t.Errorf("values = %v", got.values)
		}
		for k, entry := range got.entries {
			if crashNumber(entry) != crashNumber(got.entries[0])+k {
				t.Errorf("entries = %v", got.entries)
				break
			}
		}
	}
}

// TestARestoreForgetsTheJournalsOfAllBridges restores over the journals, the retained
// messages and the session log of bridges that all worked. It refuses to without force.
func TestARestoreForgetsTheJournalsOfAllBridges(t *testing.T) {
	n := embedded(t, t.TempDir())
	s := open(t, n, Options{})
	var archive bytes.Buffer
	if _, err := s.Backup(t.Context(), &archive, BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"b1", "b.2"} {
		j, err := s.OpenJournalOf(t.Context(), node)
		if err != nil {
			t.Fatal(err)
		}
		loaded(t, j)
		write(t, j, "entry", set("s/key", "value"))
		j.Close()
	}
	retained, err := s.OpenRetained(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := retained.Put(t.Context(), []broker.RetainedValue{{Key: "r/key", Value: []byte("value")}}); err != nil {
		t.Fatal(err)
	}
	sessions, err := s.OpenSessions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sessions.Append(t.Context(), "id", []byte("record")); err != nil {
		t.Fatal(err)
	}
	_, err = s.Restore(t.Context(), bytes.NewReader(archive.Bytes()), false, nil)
	wantCode(t, err, protocol.InvalidState)
	if _, err := s.Restore(t.Context(), bytes.NewReader(archive.Bytes()), true, nil); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"b1", "b.2"} {
		j, err := s.OpenJournalOf(t.Context(), node)
		if err != nil {
			t.Fatal(err)
		}
		if got := loaded(t, j); len(got.values)+len(got.entries) > 0 {
			t.Errorf("%s still has %v", node, got)
		}
	}
	values := make(map[string][]byte)
	if err := s.copyRetained(t.Context(), values); err != nil || len(values) > 0 {
		t.Errorf("retained are %v, %v", values, err)
	}
	if _, err := inspect(t.Context(), s.flow, sessions.stream); !isMissing(err) {
		t.Errorf("the session log is there: %v", err)
	}
}

// TestABackupHasWhatClientsOfAClusterRetained has one message replaced and one removed
// since the bridges all work.
func TestABackupHasWhatClientsOfAClusterRetained(t *testing.T) {
	s := open(t, embedded(t, t.TempDir()), Options{Node: "b1"})
	if _, err := s.OpenJournal(t.Context()); err != nil {
		t.Fatal(err)
	}
	alone, err := s.OpenJournalOf(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	loaded(t, alone)
	write(t, alone, "", set("r/kept", "1"), set("r/replaced", "1"), set("r/removed", "1"))
	retained, err := s.OpenRetained(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []broker.RetainedValue{{Key: "r/replaced", Value: []byte("2")}, {Key: "r/removed"}, {Key: "r/new", Value: []byte("1")}} {
		if _, err := retained.Put(t.Context(), []broker.RetainedValue{v}); err != nil {
			t.Fatal(err)
		}
	}
	c, err := s.copyJournals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for key, value := range c.Values {
		got[key] = string(value)
	}
	if want := map[string]string{"r/kept": "1", "r/replaced": "2", "r/new": "1"}; !maps.Equal(got, want) {
		t.Errorf("the values are %v, want %v", got, want)
	}
}
