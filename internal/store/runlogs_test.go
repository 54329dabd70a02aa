package store

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// readLog is all of a log, from the beginning.
func readLog(t *testing.T, l *RunLogs, run string) (records [][]byte, last uint64) {
	t.Helper()
	last, err := l.Read(t.Context(), run, 0, func(_ uint64, record []byte) error {
		records = append(records, record)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return records, last
}

func TestALogOfARunIsReadAsItWasWritten(t *testing.T) {
	s, _ := fresh(t)
	l, err := s.OpenRunLogs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.most = 1000
	random := rand.NewChaCha8([32]byte{})
	want := map[string][][]byte{}
	last, before := map[string]uint64{}, map[string]uint64{}
	for i := range 1000 {
		run := fmt.Sprint("run.", i%3)
		record := make([]byte, 1+i%7*900)
		_, _ = random.Read(record)
		before[run] = last[run]
		if last[run], err = l.Append(t.Context(), run, last[run], record); err != nil {
			t.Fatal(err)
		}
		want[run] = append(want[run], record)
	}
	for run, records := range want {
		got, end := readLog(t, l, run)
		if !slices.EqualFunc(got, records, bytes.Equal) || end != last[run] {
			t.Errorf("%s: %d records up to %d, want %d up to %d", run, len(got), end, len(records), last[run])
		}
		after := 0
		if _, err := l.Read(t.Context(), run, before[run], func(uint64, []byte) error { after++; return nil }); err != nil || after != 1 {
			t.Errorf("behind the last but one there are %d, %v", after, err)
		}
	}
	all, err := l.All(t.Context())
	slices.Sort(all)
	if err != nil || !slices.Equal(all, []string{"run.0", "run.1", "run.2"}) {
		t.Errorf("there are logs of %q, %v", all, err)
	}
	if err := l.Remove(t.Context(), "run.1"); err != nil {
		t.Fatal(err)
	}
	if got, end := readLog(t, l, "run.1"); len(got) != 0 || end != 0 {
		t.Errorf("a log that was removed has %d records up to %d", len(got), end)
	}
	if got, _ := readLog(t, l, "run.2"); len(got) != len(want["run.2"]) {
		t.Errorf("another has %d", len(got))
	}
}

// TestALogOfARunIsWrittenByOne has two processes write to one log.
func TestALogOfARunIsWrittenByOne(t *testing.T) {
	s, _ := fresh(t)
	open := func() *RunLogs {
		l, err := s.OpenRunLogs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		l.most = 10
		return l
	}
	one, other := open(), open()
	long := bytes.Repeat([]byte("long "), 10)
	at, err := one.Append(t.Context(), "r", 0, long)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := one.Append(t.Context(), "r", 0, long); err != nil || again != at {
		t.Errorf("a repetition is at %d, %v, not %d", again, err, at)
	}
	taken, err := other.Append(t.Context(), "r", at, []byte("mine"))
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range [][]byte{[]byte("late"), []byte("mine"), long} {
		_, err := one.Append(t.Context(), "r", at, record)
		wantCode(t, err, protocol.RevisionConflict)
	}
	// A record whose writing is interrupted counts for nothing.
	if _, _, err := one.put(t.Context(), "r", taken, long, 0); err != nil {
		t.Fatal(err)
	}
	got, end := readLog(t, other, "r")
	if len(got) != 2 || string(got[1]) != "mine" || end == taken {
		t.Errorf("%q up to %d", got, end)
	}
	if _, err := other.Append(t.Context(), "r", end, []byte("next")); err != nil {
		t.Fatal(err)
	}
	if got, _ := readLog(t, one, "r"); len(got) != 3 || string(got[2]) != "next" {
		t.Errorf("%q", got)
	}
}

func TestBlobsOfRunsStandUnderTheirNames(t *testing.T) {
	s, _ := fresh(t)
	b, err := s.OpenRunBlobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte("content "), 100_000)
	for _, data := range [][]byte{large, []byte("another")} { // the second is too late
		if err := b.Put(t.Context(), "package/one", data); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := b.Get(t.Context(), "package/one"); err != nil || !bytes.Equal(got, large) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	var names []string
	err = b.All(t.Context(), func(name string, since time.Time) bool {
		names = append(names, name)
		return !since.IsZero()
	})
	if err != nil || !slices.Equal(names, []string{"package/one"}) {
		t.Errorf("%q, %v", names, err)
	}
	for range 2 {
		if err := b.Remove(context.WithoutCancel(t.Context()), "package/one"); err != nil {
			t.Fatal(err)
		}
	}
	if has, err := b.Has(t.Context(), "package/one"); has || err != nil {
		t.Errorf("it is still there: %t, %v", has, err)
	}
	_, err = b.Get(t.Context(), "package/one")
	wantCode(t, err, protocol.FileNotFound)
}
