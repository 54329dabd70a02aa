package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/natsd"
)

// crashJournal is the environment variable that has the child of a crash test
// write to the journal.
const crashJournal = "AIBRIDGE_STORE_CRASH_JOURNAL"

// writeJournalUntilKilled does the numbered writes of [crashWrite] and tells
// on standard output "try NUMBER" before and "did NUMBER" after each. Every
// now and then it trims the log to the last write, and tells "trim NUMBER"
// before.
func writeJournalUntilKilled(dir string) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	n, err := natsd.Start(natsd.Options{Dir: dir})
	if err != nil {
		fail(err)
	}
	ctx := context.Background()
	s, err := Open(ctx, Conns{State: n.State(), Flow: n.Flow()}, patient(Options{}))
	if err != nil {
		fail(err)
	}
	j, err := s.OpenJournal(ctx)
	if err != nil {
		fail(err)
	}
	j.values.slack, j.values.chunk = 0, 4096
	number := 0
	err = j.Load(ctx, func(string, []byte) error { return nil }, func(_ uint64, entry []byte) error {
		number = crashNumber(string(entry))
		return nil
	})
	if err != nil {
		fail(err)
	}
	for {
		number++
		fmt.Println("try", number)
		keyed, entry := crashWrite(number)
		seq, err := j.Write(ctx, keyed, []byte(entry))
		if err != nil {
			fail(err)
		}
		fmt.Println("did", number)
		if number%500 == 0 {
			fmt.Println("trim", number)
			if err := j.Trim(ctx, seq); err != nil {
				fail(err)
			}
		}
	}
}

// crashWrite is the write of a number. Keys come again after some time; one
// is removed.
func crashWrite(number int) ([]KeyedValue, string) {
	value := fmt.Sprint(number)
	keyed := []KeyedValue{
		set("all", value),
		set(fmt.Sprintf("some/%d", number%50), value),
		set(fmt.Sprintf("few/%d", number%700), value),
		unset(fmt.Sprintf("few/%d", (number+350)%700)),
	}
	entry := value + " "
	if number%100 == 0 {
		entry += strings.Repeat("x", 3*maxMessage/2)
	}
	return keyed, entry
}

func crashNumber(entry string) (number int) {
	_, _ = fmt.Sscan(entry, &number)
	return number
}

func TestWhatTheJournalAcknowledgedSurvivesKill(t *testing.T) {
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	t.Setenv(crashJournal, "1")
	dir := t.TempDir()
	var tried, did, trim int
	for round := range rounds {
		life := time.Duration(20+rand.IntN(400)) * time.Millisecond
		for _, line := range killedAfter(t, dir, life) {
			var number int
			what, _, _ := strings.Cut(line, " ")
			if _, err := fmt.Sscan(line[len(what):], &number); err != nil {
				t.Fatalf("the child said %q", line)
			}
			*map[string]*int{"try": &tried, "did": &did, "trim": &trim}[what] = number
		}
		t.Logf("round %d: %d writes, trimmed to %d, in %v", round, did, trim, life)
		verifyJournal(t, dir, tried, did, trim)
	}
}

// verifyJournal checks that the journal holds every acknowledged write, and perhaps
// later ones: the last try of each process that was killed.
func verifyJournal(t *testing.T, dir string, tried, did, trim int) {
	t.Helper()
	n := embedded(t, dir)
	defer n.Close()
	j := journal(t, n)
	defer j.store.Close()
	got := loaded(t, j)
	if len(got.entries) == 0 {
		if did > 0 {
			t.Fatalf("no entries, %d were acknowledged", did)
		}
		return // it came to nothing before it was killed
	}
	first, last := crashNumber(got.entries[0]), crashNumber(got.entries[len(got.entries)-1])
	if first > max(trim, 1) || last < did || last > tried {
		t.Errorf("entries %d to %d, want %d to between %d and %d", first, last, trim, did, tried)
	}
	for i, entry := range got.entries {
		if _, want := crashWrite(first + i); entry != want {
			t.Fatalf("entry %d is %.40q, want %.40q", first+i, entry, want)
		}
	}
	// The values may be one ahead of the entries.
	states := []map[string]string{crashValues(last), crashValues(tried)}
	if fmt.Sprint(got.values) != fmt.Sprint(states[0]) && fmt.Sprint(got.values) != fmt.Sprint(states[1]) {
		t.Errorf("values = %v, want %v or %v", got.values, states[0], states[1])
	}
}

// crashValues are the values after the writes up to a number.
func crashValues(number int) map[string]string {
	values := make(map[string]string)
	for i := 1; i <= number; i++ {
		keyed, _ := crashWrite(i)
		for _, v := range keyed {
			if v.Value == nil {
				delete(values, v.Key)
			} else {
				values[v.Key] = string(v.Value)
			}
		}
	}
	return values
}
