package store

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/natsd"
)

// A keptJournal is a folder with a journal that was closed in order, and what
// it holds.
type keptJournal struct {
	dir  string
	want contents
}

func keepJournal(t *testing.T, o Options, entries int) keptJournal {
	t.Helper()
	k := keptJournal{dir: t.TempDir()}
	n, j := k.open(t, o)
	loaded(t, j)
	for i := range entries {
		write(t, j, fmt.Sprintf("entry %02d", i), set(fmt.Sprintf("key %02d", i), "value")) // none begins another, whatever comes behind it
	}
	k.want = loaded(t, j)
	j.store.Close()
	n.Close()
	return k
}

func (k keptJournal) open(t *testing.T, o Options) (*natsd.Server, *Journal) {
	t.Helper()
	n := embedded(t, k.dir)
	j, err := open(t, n, o).OpenJournal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n, j
}

// block is the only file of a stream of the journal.
func (k keptJournal) block(stream string) string {
	return filepath.Join(k.dir, "flow", "jetstream", "$G", "streams", "aibridge-mqtt-"+stream, "msgs", "1.blk")
}

// crash takes away what NATS leaves when it is stopped in order.
func (k keptJournal) crash(t *testing.T) {
	t.Helper()
	for _, stream := range []string{"log", "values"} {
		if err := os.Remove(filepath.Join(filepath.Dir(k.block(stream)), "index.db")); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

func (k keptJournal) change(t *testing.T, stream string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(k.block(stream))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(k.block(stream), change(slices.Clone(data)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (c contents) same(d contents) bool {
	return maps.Equal(c.values, d.values) && slices.Equal(c.entries, d.entries)
}

// A flipped byte had NATS drop what was behind it, and the start succeed.
func TestALossOfTheJournalIsNamed(t *testing.T) {
	flip := func(at string) func([]byte) []byte {
		return func(data []byte) []byte {
			data[strings.Index(string(data), at)] ^= 1
			return data
		}
	}
	cut := func(at string) func([]byte) []byte {
		return func(data []byte) []byte { return data[:strings.Index(string(data), at)] }
	}
	all := func([]byte) []byte { return nil }
	tests := []struct {
		name, stream string
		crash        bool
		change       func([]byte) []byte
		want         string
	}{
		{"an entry", "log", false, flip("entry 17"), "messages are missing"},
		{"an entry, after a crash", "log", true, flip("entry 17"), "33 messages are lost: it had 1 to 50 and has 1 to 17"},
		{"the first entry", "log", false, flip("entry 00"), "messages are missing: the stream begins at 1 but delivers from 2"},
		{"the first entry, after a crash", "log", true, flip("entry 00"), "50 messages are lost"},
		{"the last entry", "log", false, flip("entry 49"), "messages are missing: the stream ends at 50 but delivers up to 49"},
		{"the last entry, after a crash", "log", true, flip("entry 49"), "1 messages are lost"},
		{"entries cut off", "log", false, cut("entry 40"), "messages are missing: the stream ends at 50 but delivers up to"},
		{"entries cut off, after a crash", "log", true, cut("entry 40"), "10 messages are lost"},
		{"all entries", "log", false, all, "50 messages are lost"},
		{"all entries, after a crash", "log", true, all, "50 messages are lost"},
		{"a value", "values", false, flip("key 17"), "messages are missing"},
		{"a value, after a crash", "values", true, flip("key 17"), "33 messages are lost"},
		{"values cut off, after a crash", "values", true, cut("key 40"), "10 messages are lost"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			k := keepJournal(t, Options{}, 50)
			k.change(t, test.stream, test.change)
			if test.crash {
				k.crash(t)
			}
			n, j := k.open(t, Options{})
			var got contents
			err := got.load(j)
			var broken *integrityError
			if !errors.As(err, &broken) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "aibridge-mqtt-"+test.stream) {
				t.Fatalf("Load = %v, want %q", err, test.want)
			}
			if _, err := j.store.Backup(t.Context(), new(strings.Builder), BackupOptions{}); err == nil {
				t.Error("a backup of it is not refused")
			}
			j.store.Close()

			s := open(t, n, Options{AcceptLoss: true})
			accepted, err := s.OpenJournal(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			left := loaded(t, accepted)
			if left.same(k.want) {
				t.Error("nothing is lost")
			}
			write(t, accepted, "new", set("new", "value"))
			s.Close()
			n.Close()
			_, j = k.open(t, Options{}) // NATS still passes over what it cannot read, unless it cut it off
			if err := got.load(j); test.crash && err != nil {
				t.Errorf("the loss is history, but Load = %v", err)
			}
		})
	}
}

// After a power cut, what was not synced may be gone. That is said.
func TestALossByAPowerCutIsAcceptedAndSaid(t *testing.T) {
	k := keepJournal(t, Options{Boot: "before"}, 50)
	k.change(t, "log", func(data []byte) []byte { return data[:len(data)/2] })
	k.crash(t)
	n, j := k.open(t, Options{Boot: "before"})
	var got contents
	if err := got.load(j); err == nil {
		t.Error("the loss is not noticed while the machine runs on")
	}
	j.store.Close()
	n.Close()
	_, j = k.open(t, Options{Boot: "after"})
	if got := loaded(t, j); len(got.entries) == 0 || len(got.entries) >= 50 || len(got.values) != 50 {
		t.Errorf("%d entries and %d values", len(got.entries), len(got.values))
	}
}

// TestWhateverHappensToTheJournalIsSaid flips bytes of a small journal, and cuts
// it, after a crash: at every fifth byte, from one run to the next at others.
func TestWhateverHappensToTheJournalIsSaid(t *testing.T) {
	const step = 5
	from := rand.IntN(step)
	t.Logf("from byte %d", from)
	for _, stream := range []string{"log", "values"} {
		original := keepJournal(t, Options{}, 2)
		block, err := os.ReadFile(original.block(stream))
		if err != nil {
			t.Fatal(err)
		}
		for what, change := range map[string]func(data []byte, at int) []byte{
			"flipped": func(data []byte, at int) []byte { data[at] ^= 0x10; return data },
			"cut":     func(data []byte, at int) []byte { return data[:at] },
		} {
			t.Run(stream+" "+what, func(t *testing.T) {
				t.Parallel()
				for at := from; at < len(block); at += step {
					k := keptJournal{dir: t.TempDir()}
					if err := os.CopyFS(k.dir, os.DirFS(original.dir)); err != nil {
						t.Fatal(err)
					}
					k.change(t, stream, func(data []byte) []byte { return change(data, at) })
					k.crash(t)
					if !k.wholeOrSaid(t, original.want) {
						t.Fatalf("%s at %d: something is lost and nothing is said", what, at)
					}
				}
			})
		}
	}
}

func (k keptJournal) wholeOrSaid(t *testing.T, want contents) bool {
	n, err := natsd.Start(natsd.Options{Dir: k.dir})
	if err != nil {
		return true
	}
	defer n.Close()
	s := open(t, n, Options{})
	defer s.Close()
	j, err := s.OpenJournal(t.Context())
	if err != nil {
		return true
	}
	var got contents
	return got.load(j) != nil || got.same(want)
}
