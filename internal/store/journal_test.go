package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/protocol"
)

// journal is the journal of a store of its own on the servers, yet to be
// loaded. It clears away what is overtaken as soon as it can.
func journal(t testing.TB, n *natsd.Server) *Journal {
	t.Helper()
	j, err := open(t, n, Options{}).OpenJournal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	j.values.slack, j.values.chunk = 0, 256
	return j
}

// contents are the things that a journal loads.
type contents struct {
	values  map[string]string
	entries []string
	seqs    []uint64
}

func (c *contents) load(j *Journal) error {
	*c = contents{values: make(map[string]string)}
	return j.Load(context.Background(),
		func(key string, value []byte) error {
			if _, twice := c.values[key]; twice {
				return fmt.Errorf("%q came twice", key)
			}
			c.values[key] = string(value)
			return nil
		},
		func(seq uint64, entry []byte) error {
			c.entries = append(c.entries, string(entry))
			c.seqs = append(c.seqs, seq)
			return nil
		})
}

func loaded(t testing.TB, j *Journal) contents {
	t.Helper()
	var c contents
	if err := c.load(j); err != nil {
		t.Fatal(err)
	}
	return c
}

func write(t testing.TB, j *Journal, entry string, keyed ...KeyedValue) uint64 {
	t.Helper()
	seq, err := j.Write(context.Background(), keyed, []byte(entry))
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func set(key, value string) KeyedValue { return KeyedValue{Key: key, Value: []byte(value)} }
func unset(key string) KeyedValue      { return KeyedValue{Key: key} }

func TestAJournalLoadsWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	n := embedded(t, dir)
	j := journal(t, n)
	if got := loaded(t, j); len(got.values)+len(got.entries) != 0 {
		t.Errorf("a new journal holds %v", got)
	}
	long := "r/" + strings.Repeat("топик/", 5000)
	huge := strings.Repeat("0123456789", 1<<20) // more than NATS takes in one message
	write(t, j, "one", set("s/a", "1"), set("s/b", "1"), set(long, "1"), set("", ""))
	write(t, j, "", set("s/a", "2"), unset("s/b"), unset("s/never"))
	two := write(t, j, huge, set("huge", huge))
	write(t, j, "three", set(long, "2"))
	n.Close()

	j = journal(t, embedded(t, dir))
	want := map[string]string{"s/a": "2", "": "", "huge": huge, long: "2"}
	got := loaded(t, j)
	if !maps.Equal(got.values, want) {
		t.Errorf("values differ: %d, want %d", len(got.values), len(want))
	}
	if !reflect.DeepEqual(got.entries, []string{"one", huge, "three"}) {
		t.Errorf("%d entries differ", len(got.entries))
	}
	if err := j.Trim(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	write(t, j, "four")
	if got := loaded(t, j); !reflect.DeepEqual(got.entries, []string{huge, "three", "four"}) {
		t.Errorf("%d entries after Trim differ", len(got.entries))
	}
	last := write(t, j, "five")
	if err := j.Trim(t.Context(), last+1); err != nil {
		t.Fatal(err)
	}
	if err := j.Trim(t.Context(), last+2); err == nil {
		t.Error("trimmed beyond the end")
	}
	write(t, j, "six")
	if got := loaded(t, j); !reflect.DeepEqual(got.entries, []string{"six"}) || got.seqs[0] != last+1 {
		t.Errorf("entries after all were trimmed: %q at %d, last was %d", got.entries, got.seqs, last)
	}
}

func TestAJournalIsLoadedBeforeItIsUsed(t *testing.T) {
	j := journal(t, embedded(t, t.TempDir()))
	if _, err := j.Write(t.Context(), nil, []byte("x")); !errors.Is(err, errNotLoaded) {
		t.Errorf("Write = %v", err)
	}
	if err := j.Trim(t.Context(), 1); !errors.Is(err, errNotLoaded) {
		t.Errorf("Trim = %v", err)
	}
}

func TestLoadingEndsWithTheCallersError(t *testing.T) {
	j := journal(t, embedded(t, t.TempDir()))
	loaded(t, j)
	write(t, j, "entry", set("key", "value"))
	stop := errors.New("stop")
	keyed := func(string, []byte) error { return stop }
	if err := j.Load(t.Context(), keyed, nil); !errors.Is(err, stop) {
		t.Errorf("Load = %v", err)
	}
	keyed = func(string, []byte) error { return nil }
	if err := j.Load(t.Context(), keyed, func(uint64, []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Load = %v", err)
	}
}

// messages is the number of messages that a log has.
func messages(t testing.TB, l *recordLog) uint64 {
	t.Helper()
	info, err := inspect(context.Background(), l.nc, l.stream)
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Messages
}

func TestAWriteWhoseAcknowledgementWasLostIsStoredOnce(t *testing.T) {
	j := journal(t, embedded(t, t.TempDir()))
	loaded(t, j)
	for i, entry := range []string{"small", strings.Repeat("large", maxMessage/2)} {
		values, entries := j.values.last, j.entries.last
		seq := write(t, j, entry, set("k", "v"))
		j.values.last, j.values.doubt = values, appendChange(nil, set("k", "v"))
		j.entries.doubt, j.entries.sent = []byte(entry), int(j.entries.last-entries)-1
		j.entries.last--
		if again := write(t, j, entry, set("k", "v")); again != seq {
			t.Errorf("%d became %d", seq, again)
		}
		if next := write(t, j, "next"); next != j.entries.last {
			t.Errorf("the next one is %d, want %d", next, j.entries.last)
		}
		if got := loaded(t, j); len(got.entries) != 2*(i+1) || got.entries[2*i] != entry || got.values["k"] != "v" {
			t.Errorf("%d entries: %.60q", len(got.entries), got.entries)
		}
	}
	if n := messages(t, &j.values.recordLog); n != 2 {
		t.Errorf("values take %d messages, want 2", n)
	}
}

func TestARecordThatWasNotStoredToItsEndIsPassedOver(t *testing.T) {
	j := journal(t, embedded(t, t.TempDir()))
	loaded(t, j)
	write(t, j, "before")
	body := []byte(strings.Repeat("large", maxMessage/2))
	for i := range 2 {
		if err := j.entries.publish(t.Context(), j.entries.part(body, i)); err != nil {
			t.Fatal(err)
		}
	}
	if got := loaded(t, j); !reflect.DeepEqual(got.entries, []string{"before"}) {
		t.Errorf("%d entries: %.60q", len(got.entries), got.entries)
	}
	write(t, j, string(body))
	write(t, j, "after")
	if got := loaded(t, j); !reflect.DeepEqual(got.entries, []string{"before", string(body), "after"}) {
		t.Errorf("%d entries: %.60q", len(got.entries), got.entries)
	}
}

func TestAnAppendGoesOnWhereItFailed(t *testing.T) {
	for _, acknowledged := range []int{1, 2} { // of two messages stored
		j := journal(t, embedded(t, t.TempDir()))
		loaded(t, j)
		write(t, j, "before")
		l := &j.entries
		body := []byte(strings.Repeat("large", maxMessage/2))
		for i := range 2 {
			if err := l.publish(t.Context(), l.part(body, i)); err != nil {
				t.Fatal(err)
			}
		}
		l.last, l.doubt, l.sent = uint64(1+acknowledged), body, acknowledged
		if seq := write(t, j, string(body)); seq != 2 || l.last != 4 {
			t.Errorf("stored from %d to %d, want 2 to 4", seq, l.last)
		}
		if got := loaded(t, j); !reflect.DeepEqual(got.entries, []string{"before", string(body)}) {
			t.Errorf("%d entries: %.60q", len(got.entries), got.entries)
		}
	}
}

func TestAfterAFailureAnotherRecordMayFollow(t *testing.T) {
	for _, stored := range []int{0, 1, 2} {
		j := journal(t, embedded(t, t.TempDir()))
		loaded(t, j)
		write(t, j, "before")
		l := &j.entries
		body := []byte(strings.Repeat("large", maxMessage/2))
		for i := range stored {
			if err := l.publish(t.Context(), l.part(body, i)); err != nil {
				t.Fatal(err)
			}
		}
		l.last, l.doubt = uint64(1+max(stored-1, 0)), body
		l.sent = int(l.last) - 1
		write(t, j, "other")
		if got := loaded(t, j); !reflect.DeepEqual(got.entries, []string{"before", "other"}) {
			t.Errorf("%d stored: entries: %.60q", stored, got.entries)
		}
	}
}

// A server of NATS that was away, and takes itself for the leader, answers that the log
// ends where it did long ago. A write in doubt is stored once all the same.
func TestALogIsNotTakenBackToWhereAServerThatWasAwaySaysItEnds(t *testing.T) {
	j := journal(t, embedded(t, t.TempDir()))
	loaded(t, j)
	for _, entry := range []string{"a", "b", "c"} {
		write(t, j, entry)
	}
	l := &j.entries
	body := []byte("in doubt")
	if err := l.publish(t.Context(), l.part(body, 0)); err != nil {
		t.Fatal(err)
	}
	l.last, l.doubt, l.sent = l.last-1, body, 0
	if _, err := l.settleAt(t.Context(), 1, body); protocol.CodeOf(err) != protocol.StoreUnavailable || errors.Is(err, errConflict) {
		t.Errorf("the log is said to end at 1: %v", err)
	}
	if seq := write(t, j, "in doubt"); seq != 4 {
		t.Errorf("it is stored at %d", seq)
	}
	if got := loaded(t, j); !reflect.DeepEqual(got.entries, []string{"a", "b", "c", "in doubt"}) {
		t.Errorf("the log has %q", got.entries)
	}
}

// A log that has lost its end goes on where it ends now.
func TestALogGoesOnAfterALoss(t *testing.T) {
	j := journal(t, embedded(t, t.TempDir()))
	loaded(t, j)
	write(t, j, "a")
	l := &j.entries
	l.last, l.doubt, l.sent = 10, []byte("b"), 0
	write(t, j, "b")
	if got := loaded(t, j); !reflect.DeepEqual(got.entries, []string{"a", "b"}) {
		t.Errorf("the log has %q", got.entries)
	}
}

// A log is not read to its end before it has been read as far as it is known to reach.
func TestALogIsReadAsFarAsItIsKnownToReach(t *testing.T) {
	j := journal(t, embedded(t, t.TempDir()))
	loaded(t, j)
	write(t, j, "a")
	l := &j.entries
	reader := partReader{stream: l.stream, first: 1, at: l.last}
	l.last++ // claimed, and a server that was away has answered
	if err := l.settleEnds(t.Context(), &reader); !errors.Is(err, errBehind) {
		t.Errorf("got %v", err)
	}
	if err := l.publish(t.Context(), nil); err == nil {
		t.Error("the log has that end")
	}
	l.last--
	if err := l.settleEnds(t.Context(), &reader); err != nil {
		t.Error(err)
	}
}

// What a write that was given up has in flight arrives after the log was looked
// at, and before the next write does.
func TestAWriteGoesOnAfterOneThatArrivesLate(t *testing.T) {
	large := strings.Repeat("large", maxMessage/2)
	for name, c := range map[string]struct {
		late   string
		stored int // messages of it
		write  string
		seq    uint64
		want   []string
	}{
		"the same":              {"again", 1, "again", 2, []string{"before", "again"}},
		"the same, in part":     {large, 1, large, 2, []string{"before", large}},
		"another":               {"given up", 1, "other", 3, []string{"before", "given up", "other"}},
		"another, in part":      {large, 1, "other", 3, []string{"before", "other"}},
		"another that is large": {"given up", 1, large, 3, []string{"before", "given up", large}},
	} {
		t.Run(name, func(t *testing.T) {
			j := journal(t, embedded(t, t.TempDir()))
			loaded(t, j)
			write(t, j, "before")
			l := &j.entries
			for i := range c.stored {
				if err := l.publish(t.Context(), l.part([]byte(c.late), i)); err != nil {
					t.Fatal(err)
				}
			}
			l.last -= uint64(c.stored) // as settle left it
			if seq := write(t, j, c.write); seq != c.seq {
				t.Errorf("stored at %d, want %d", seq, c.seq)
			}
			if got := loaded(t, j); !reflect.DeepEqual(got.entries, c.want) {
				t.Errorf("%d entries: %.60q, want %.60q", len(got.entries), got.entries, c.want)
			}
		})
	}
}

func TestWritesCutShortAtAnyMomentAreStoredOnce(t *testing.T) {
	t.Parallel()
	j := journal(t, embedded(t, t.TempDir()))
	loaded(t, j)
	var want []string
	repeated := 0
	for i := range 300 {
		entry := fmt.Sprintf("entry %d", i)
		if i%10 == 0 {
			entry += strings.Repeat("-", 3*maxMessage/2)
		}
		want = append(want, entry)
		for {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(200))*time.Microsecond)
			_, err := j.Write(ctx, []KeyedValue{set("last", fmt.Sprint(i))}, []byte(entry))
			cancel()
			if err == nil {
				break
			}
			wantCode(t, err, protocol.StoreUnavailable)
			if repeated++; repeated > 20*len(want) { // the machine is slow
				write(t, j, entry, set("last", fmt.Sprint(i)))
				break
			}
		}
	}
	got := loaded(t, j)
	if !reflect.DeepEqual(got.entries, want) || got.values["last"] != "299" {
		t.Errorf("%d entries, want %d; last is %s", len(got.entries), len(want), got.values["last"])
	}
	t.Logf("%d repetitions", repeated)
}

func TestASecondWriterIsFoundOut(t *testing.T) {
	n := embedded(t, t.TempDir())
	first := journal(t, n)
	loaded(t, first)
	write(t, first, "a", set("k", "a"))
	second := journal(t, n)
	loaded(t, second)
	write(t, second, "b", set("k", "b"))
	for range 3 {
		_, err := first.Write(t.Context(), nil, []byte("c"))
		wantCode(t, err, protocol.StoreUnavailable)
		_, err = first.Write(t.Context(), []KeyedValue{set("k", "c")}, nil)
		wantCode(t, err, protocol.StoreUnavailable)
		if !strings.Contains(err.Error(), "another bridge") {
			t.Errorf("error = %v", err)
		}
	}
	write(t, second, "d", set("k", "d"))
	got := loaded(t, second)
	if !reflect.DeepEqual(got.entries, []string{"a", "b", "d"}) || got.values["k"] != "d" {
		t.Errorf("got %v", got)
	}
}

func TestTheJournalFailsFastWhileNATSIsAwayAndRecovers(t *testing.T) {
	n := runNATS(t, t.TempDir(), server.RANDOM_PORT)
	c, err := natsd.Connect(natsd.ExternalOptions{URL: n.ClientURL(), Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	j := journal(t, c)
	loaded(t, j)
	write(t, j, "before", set("k", "before"))
	n.stop()
	eventually.Holds(t, "the loss is noticed", func() bool { return !j.store.flow.current().isUp() })
	began := time.Now()
	_, err = j.Write(t.Context(), []KeyedValue{set("k", "after")}, []byte("after"))
	wantCode(t, err, protocol.StoreUnavailable)
	wantCode(t, j.Trim(t.Context(), 1), "")
	if err := j.Trim(t.Context(), 2); err == nil {
		t.Error("trimmed without NATS")
	}
	if took := time.Since(began); took > eventually.Patience {
		t.Errorf("failing took %v", took)
	}
	runNATS(t, n.dir, n.port)
	eventually.Holds(t, "it works again", func() bool {
		_, err := j.Write(t.Context(), []KeyedValue{set("k", "after")}, []byte("after"))
		return err == nil
	})
	got := loaded(t, j)
	if !reflect.DeepEqual(got.entries, []string{"before", "after"}) || got.values["k"] != "after" {
		t.Errorf("got %v", got)
	}
}

// swept waits for what the background does, which the next write takes over.
func swept(j *Journal) {
	if done := j.values.sweeping; done != nil {
		done <- <-done
	}
}

func TestOvertakenValuesAreClearedAway(t *testing.T) {
	j := journal(t, embedded(t, t.TempDir()))
	j.values.chunk = 32 << 10
	loaded(t, j)
	const cold, hot, rounds = 200, 5, 4000
	want := make(map[string]string)
	for i := range cold {
		key := fmt.Sprintf("cold/%d", i)
		want[key] = strings.Repeat("c", 50)
		write(t, j, "", set(key, want[key]))
	}
	most := uint64(0)
	for i := range rounds {
		key, value := fmt.Sprintf("hot/%d", i%hot), fmt.Sprint(i)
		want[key] = value
		gone := fmt.Sprintf("gone/%d", i)
		write(t, j, "", set(key, value), set(gone, "x"))
		write(t, j, "", unset(gone))
		swept(j)
		if i%100 == 0 {
			most = max(most, messages(t, &j.values.recordLog))
		}
	}
	eventually.Holds(t, "the log is short", func() bool {
		write(t, j, "", set("hot/0", "0"))
		return j.values.size <= 3*j.values.live
	})
	want["hot/0"] = "0"
	if most > rounds {
		t.Errorf("%d writes took up to %d messages", 2*rounds, most)
	}
	if j.values.places.len() != len(want) {
		t.Errorf("%d places, want %d", j.values.places.len(), len(want))
	}
	if got := loaded(t, j); !maps.Equal(got.values, want) {
		t.Errorf("%d values, want %d, or they differ", len(got.values), len(want))
	}
}

func TestClearingAwayGoesOnAfterAFailure(t *testing.T) {
	j := journal(t, embedded(t, t.TempDir()))
	loaded(t, j)
	j.values.swept(sweep{err: errors.New("no")})
	if j.values.pause.IsZero() {
		t.Error("no pause")
	}
	j.values.pause = time.Time{}
	eventually.Holds(t, "something is cleared away", func() bool {
		write(t, j, "", set("k", strings.Repeat("v", 100)))
		return j.values.done > 0
	})
}

func TestADamagedJournalDoesNotLoad(t *testing.T) {
	garbage := func(data string) func(j *Journal, l *recordLog) error {
		return func(_ *Journal, l *recordLog) error { return l.nc.conn.Publish(l.subject, []byte(data)) }
	}
	tests := []struct {
		name  string
		wreck func(j *Journal, l *recordLog) error
		want  string
	}{
		{"empty", garbage(""), "not a part"},
		{"newer", garbage("\x09writer00..."), "newer bridge"},
		{"no beginning", garbage(string([]byte{partLast}) + "writer00..."), "without its beginning"},
		{"values cut off", garbage(string([]byte{partWhole}) + "writer00\xff"), "cut off"},
		{"values cut off in a value", garbage(string([]byte{partWhole}) + "writer00\x02k\x05v"), "cut off"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			j := journal(t, embedded(t, t.TempDir()))
			loaded(t, j)
			write(t, j, "entry", set("k", "v"))
			if err := test.wreck(j, &j.values.recordLog); err != nil {
				t.Fatal(err)
			}
			eventually.Holds(t, "it is stored", func() bool { return messages(t, &j.values.recordLog) == 2 })
			var c contents
			err := c.load(j)
			var broken *integrityError
			if !errors.As(err, &broken) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), j.values.stream) {
				t.Errorf("Load = %v, want %q", err, test.want)
			}
		})
	}
}

func TestAGapInALogIsNoticed(t *testing.T) {
	l := recordLog{writer: []byte("writer00"), room: 1}
	p := partReader{stream: "s"}
	part := l.part([]byte("x"), 0)
	if _, ok, err := p.add(delivered(7, part)); !ok || err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.add(delivered(9, part)); !errors.Is(err, errGap) {
		t.Errorf("error = %v, want %v", err, errGap)
	}
}

// What was trimmed while a log is read is no gap in it, nor is a record of which the
// beginning was read before; what is missing behind it is.
func TestWhatIsTrimmedWhileALogIsReadIsNotMissing(t *testing.T) {
	n := embedded(t, t.TempDir())
	j := journal(t, n)
	loaded(t, j)
	l := &j.entries
	l.most = 1
	for _, entry := range []string{"a", "long", "b", "c"} { // at 1, 2 to 5, 6 and 7
		write(t, j, entry)
	}
	all := stored(t, l)
	trim(t, l, 6)
	for name, c := range map[string]struct {
		read []uint64
		want string // the records that are whole, or the error
	}{
		"nothing":                     {[]uint64{1, 2, 3, 4, 5, 6, 7}, "[a long b c]"},
		"between records":             {[]uint64{1, 6, 7}, "[a b c]"},
		"within a record":             {[]uint64{1, 2, 3, 6, 7}, "[a b c]"},
		"and one that was not":        {[]uint64{1, 7}, errGap.Error()},
		"within one, and one was not": {[]uint64{1, 2, 7}, errGap.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			reader, got := partReader{stream: l.stream}, []string{}
			result := func() string {
				for _, seq := range c.read {
					if err := l.passTrimmed(t.Context(), &reader, seq); err != nil {
						return err.Error()
					}
					r, ok, err := reader.add(delivered(seq, all[seq]))
					if err != nil {
						return err.Error()
					}
					if ok {
						got = append(got, string(r.body))
					}
				}
				return fmt.Sprint(got)
			}()
			if !strings.Contains(result, c.want) {
				t.Errorf("got %s, want %s", result, c.want)
			}
		})
	}
	t.Run("a server that was away answers", func(t *testing.T) {
		reader := partReader{stream: l.stream, first: 1, at: 1}
		if err := l.passTrimmed(t.Context(), &reader, 9); !errors.Is(err, errBehind) {
			t.Errorf("got %v", err)
		}
	})
}

// stored are the messages of a log, by their sequences.
func stored(t testing.TB, l *recordLog) map[uint64][]byte {
	t.Helper()
	all := make(map[uint64][]byte)
	err := readStream(t.Context(), l.nc, l.stream, func(m message) error {
		all[m.seq] = bytes.Clone(m.Data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func trim(t testing.TB, l *recordLog, before uint64) {
	t.Helper()
	if err := l.trim(t.Context(), before); err != nil {
		t.Fatal(err)
	}
}

// A journalModel is a journal beside what it should hold.
type journalModel struct {
	dir     string
	servers *natsd.Server
	store   *Store
	journal *Journal
	values  map[string]string
	entries []string
	seqs    []uint64
}

func (m *journalModel) start(t *rapid.T) {
	var err error
	if m.servers, err = natsd.Start(natsd.Options{Dir: m.dir}); err != nil {
		t.Fatal(err)
	}
	if m.store, err = Open(context.Background(), Conns{State: m.servers.State(), Flow: m.servers.Flow()}, patient(Options{})); err != nil {
		t.Fatal(err)
	}
	if m.journal, err = m.store.OpenJournal(context.Background()); err != nil {
		t.Fatal(err)
	}
	m.journal.values.slack, m.journal.values.chunk = 0, 64
	m.verify(t)
}

func (m *journalModel) verify(t *rapid.T) {
	var got contents
	if err := got.load(m.journal); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got.values, m.values) {
		t.Fatalf("values = %v, want %v", got.values, m.values)
	}
	if fmt.Sprint(got.entries, got.seqs) != fmt.Sprint(m.entries, m.seqs) {
		t.Fatalf("entries = %q %v, want %q %v", got.entries, got.seqs, m.entries, m.seqs)
	}
}

func (m *journalModel) stop() {
	m.store.Close()
	m.servers.Close()
}

func (m *journalModel) Write(t *rapid.T) {
	changes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) KeyedValue {
		v := KeyedValue{Key: rapid.SampledFrom([]string{"a", "b", "c", "d", "e", ""}).Draw(t, "key")}
		if rapid.Bool().Draw(t, "set") {
			v.Value = rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "value")
		}
		return v
	}), 0, 6).Draw(t, "changes")
	entry := rapid.SliceOfN(rapid.Byte(), 0, 10).Draw(t, "entry")
	seq, err := m.journal.Write(context.Background(), changes, entry)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if c.Value == nil {
			delete(m.values, c.Key)
		} else {
			m.values[c.Key] = string(c.Value)
		}
	}
	if len(entry) > 0 {
		m.entries, m.seqs = append(m.entries, string(entry)), append(m.seqs, seq)
	}
}

// Repeat does a write again as if it had not been acknowledged.
func (m *journalModel) Repeat(t *rapid.T) {
	values, entries := m.journal.values.last, m.journal.entries.last
	changes, entry := []KeyedValue{set("a", rapid.String().Draw(t, "value"))}, []byte("again")
	first, err := m.journal.Write(context.Background(), changes, entry)
	if err != nil {
		t.Fatal(err)
	}
	m.journal.values.last, m.journal.values.doubt, m.journal.values.sent = values, appendChange(nil, changes[0]), 0
	m.journal.entries.last, m.journal.entries.doubt, m.journal.entries.sent = entries, entry, 0
	seq, err := m.journal.Write(context.Background(), changes, entry)
	if err != nil || seq != first {
		t.Fatalf("again = %d, %v, want %d", seq, err, first)
	}
	m.values["a"] = string(changes[0].Value)
	m.entries, m.seqs = append(m.entries, "again"), append(m.seqs, seq)
}

func (m *journalModel) Trim(t *rapid.T) {
	if len(m.entries) == 0 {
		t.Skip()
	}
	keep := rapid.IntRange(0, len(m.entries)-1).Draw(t, "keep")
	if err := m.journal.Trim(context.Background(), m.seqs[keep]); err != nil {
		t.Fatal(err)
	}
	m.entries, m.seqs = m.entries[keep:], m.seqs[keep:]
}

func (m *journalModel) Restart(t *rapid.T) {
	m.stop()
	m.start(t)
}

func (m *journalModel) Check(t *rapid.T) {
	if m.journal.values.places.len() != len(m.values) {
		t.Fatalf("%d places, want %d", m.journal.values.places.len(), len(m.values))
	}
	live := 0
	for key, value := range m.values {
		live += len(appendChange(nil, set(key, value)))
	}
	if m.journal.values.live != live {
		t.Fatalf("%d bytes count, want %d", m.journal.values.live, live)
	}
}

func TestAJournalBehavesLikeAMapAndAList(t *testing.T) {
	t.Parallel()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		m := &journalModel{dir: fmt.Sprintf("%s/%d", t.TempDir(), run), values: make(map[string]string)}
		m.start(rt)
		defer func() { m.stop() }()
		actions := rapid.StateMachineActions(m)
		for i := range 8 { // mostly
			actions[fmt.Sprint("Write", i)] = m.Write
		}
		rt.Repeat(actions)
		m.verify(rt)
	})
}

func FuzzChanges(f *testing.F) {
	f.Add(appendChange(appendChange(nil, set("key", "value")), unset("other")))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{2, 'k', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		var again []byte
		for at := 0; at < len(data); {
			c, err := changeAt(data, at)
			if err != nil {
				return
			}
			if c.at != at || c.end <= at || c.end > len(data) {
				t.Fatalf("%d-%d of %d", c.at, c.end, len(data))
			}
			at = c.end
			value := c.value
			if !c.removed && value == nil {
				t.Fatal("nil for a value")
			}
			again = appendChange(again, KeyedValue{Key: string(c.key), Value: value})
		}
		for at, bt := 0, 0; at < len(data); {
			a, _ := changeAt(data, at)
			b, err := changeAt(again, bt)
			if err != nil || !bytes.Equal(a.key, b.key) || !bytes.Equal(a.value, b.value) || a.removed != b.removed {
				t.Fatalf("%v became %v, %v", a, b, err)
			}
			at, bt = a.end, b.end
		}
	})
}

// delivered is a message as a consumer delivers it.
func delivered(seq uint64, data []byte) message {
	return message{Msg: &nats.Msg{Data: data}, seq: seq}
}
