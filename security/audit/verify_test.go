package audit

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/evidence"
	"github.com/aibridge/aibridge/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// A memoryLog is a log that can be tampered with.
type memoryLog struct {
	mu      sync.Mutex
	first   uint64
	groups  [][]byte
	err     error
	largest int // bytes of a record, 0 for any
}

func (l *memoryLog) Largest() int {
	if l.largest == 0 {
		return math.MaxInt
	}
	return l.largest
}

func (l *memoryLog) Append(_ context.Context, group []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	l.groups = append(l.groups, bytes.Clone(group))
	return nil
}

func (l *memoryLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func (l *memoryLog) Bounds(context.Context) (Bounds, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := Bounds{First: l.first + 1, Last: l.first + uint64(len(l.groups))}
	for _, g := range l.groups {
		b.Bytes += uint64(len(g))
	}
	return b, nil
}

func (l *memoryLog) Get(_ context.Context, position uint64) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := position - l.first - 1; position > l.first && i < uint64(len(l.groups)) {
		return l.groups[i], nil
	}
	return nil, nil
}

func (l *memoryLog) Read(_ context.Context, f func(uint64, []byte) error) error {
	l.mu.Lock()
	groups, first := slices.Clone(l.groups), l.first
	l.mu.Unlock()
	for i, g := range groups {
		if err := f(first+uint64(i)+1, g); err != nil {
			return err
		}
	}
	return nil
}

func (l *memoryLog) Trim(_ context.Context, before uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.groups = l.groups[before-l.first-1:]
	l.first = before - 1
	return nil
}

func testKey(t testing.TB, seed byte) *Key {
	t.Helper()
	k, err := NewKey(bytes.Repeat([]byte{seed}, KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// chainOf is a log of groups of the given sizes, each a block, and its head.
func chainOf(t testing.TB, key *Key, sizes ...int) (*memoryLog, Head) {
	t.Helper()
	local := openLocal(t, t.TempDir(), evidence.Options{GroupBlocks: true})
	trail := &Trail{o: Options{Key: key, Local: local}, work: make(chan struct{}, 1)}
	trail.metrics = newMetrics(trail, nil)
	local.Chain(trail)
	log := &memoryLog{}
	for _, size := range sizes {
		for i := range size {
			local.Add(&record{Entry: Entry{Time: time.UnixMilli(1), Event: "test.do", Code: OK, RequestID: fmt.Sprint(len(log.groups), i)}, added: &trail.added})
		}
		local.Keep()
		block, err := local.Get(t.Context(), uint64(len(log.groups)+1))
		if err != nil || block == nil {
			t.Fatalf("%d bytes, %v", len(block), err)
		}
		log.groups = append(log.groups, block)
	}
	if err := local.Close(); err != nil {
		t.Fatal(err)
	}
	return log, trail.head
}

func openLocal(t testing.TB, dir string, o evidence.Options) *evidence.Log {
	t.Helper()
	local, err := evidence.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return local
}

// importedOf is a chain as an earlier version has written it.
func importedOf(t testing.TB, key *Key, sizes ...int) (*memoryLog, Head) {
	t.Helper()
	log, head := &memoryLog{}, Head{}
	for _, size := range sizes {
		var entries [][]byte
		for range size {
			entries = append(entries, fmt.Appendf(nil, `{"time":"2026-01-01T00:00:00.001Z","event":"test.do","code":"ok","request_id":"%d %d"}`, len(log.groups), len(entries)))
		}
		var data []byte
		data, head = key.appendImported(nil, head, time.UnixMilli(int64(len(log.groups))), entries)
		log.groups = append(log.groups, data)
	}
	return log, head
}

// appendImported writes a group as an earlier version did.
func (k *Key) appendImported(dst []byte, head Head, at time.Time, entries [][]byte) ([]byte, Head) {
	dst = append(dst, importedMagic...)
	dst = append(dst, k.chain[:]...)
	dst = binary.BigEndian.AppendUint64(dst, head.Seq+1)
	dst = binary.BigEndian.AppendUint64(dst, uint64(at.UnixMilli()))
	dst = append(dst, head.Hash[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(entries)))
	header := dst[len(dst)-importedHead:]
	for _, entry := range entries {
		head = head.follow(k.chain, entry)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(entry)))
		dst = append(dst, entry...)
		dst = append(dst, head.Hash[:]...)
	}
	return append(dst, k.mac(importedDomain, header, head.Hash[:])...), head
}

func verify(t testing.TB, log Log, key *Key, heads ...Head) Report {
	t.Helper()
	r, err := Verify(context.Background(), log, key, heads...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// found is the complaint of a report, in short.
func found(r Report) string {
	var b bytes.Buffer
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "%s %d-%d;", p.Kind, p.From, p.To)
	}
	return b.String()
}

func TestAWholeTrailVerifies(t *testing.T) {
	key := testKey(t, 1)
	log, head := chainOf(t, key, 3, 1, 5)
	r := verify(t, log, key, head, Head{})
	if !r.OK || r.Entries != 9 || r.First != 1 || r.Last != 9 || r.Head != head.String() {
		t.Errorf("%+v", r)
	}
	if r := verify(t, &memoryLog{}, key); !r.OK || r.Entries != 0 {
		t.Errorf("an empty trail: %+v", r)
	}
}

// importedTamperings do something to an imported trail of the groups 1-3, 4-5,
// 6-8, 9-10.
var importedTamperings = map[string]struct {
	tamper func(key *Key, groups [][]byte) [][]byte
	want   string
}{
	"an entry is changed": {func(_ *Key, g [][]byte) [][]byte {
		g[2] = bytes.Replace(g[2], []byte(`"2 1"`), []byte(`"2 x"`), 1)
		return g
	}, "changed 7-7;"},
	"an entry and its hash are changed": {func(key *Key, g [][]byte) [][]byte {
		return rewrite(key, g, 2, func(entries [][]byte) [][]byte { entries[1] = []byte(`{"event":"x"}`); return entries })
	}, "forged 6-8;"},
	"an entry is taken out of a group": {func(key *Key, g [][]byte) [][]byte {
		return rewrite(key, g, 2, func(entries [][]byte) [][]byte { return slices.Delete(entries, 1, 2) })
	}, "forged 6-7;missing 8-8;"},
	"an entry is put into a group": {func(key *Key, g [][]byte) [][]byte {
		return rewrite(key, g, 1, func(entries [][]byte) [][]byte { return append(entries, []byte(`{"event":"x"}`)) })
	}, "forged 4-6;"},
	"a group is deleted":           {func(_ *Key, g [][]byte) [][]byte { return slices.Delete(g, 1, 2) }, "missing 4-5;"},
	"the first group is deleted":   {func(_ *Key, g [][]byte) [][]byte { return g[1:] }, "missing 1-3;"},
	"the last group is deleted":    {func(_ *Key, g [][]byte) [][]byte { return g[:3] }, "truncated 9-10;"},
	"everything is deleted":        {func(*Key, [][]byte) [][]byte { return nil }, "truncated 1-10;"},
	"two groups change places":     {func(_ *Key, g [][]byte) [][]byte { g[1], g[2] = g[2], g[1]; return g }, "reordered 4-5;"},
	"the last two change places":   {func(_ *Key, g [][]byte) [][]byte { g[2], g[3] = g[3], g[2]; return g }, "reordered 6-8;"},
	"the first two change places":  {func(_ *Key, g [][]byte) [][]byte { g[0], g[1] = g[1], g[0]; return g }, "reordered 1-3;"},
	"a group is there twice":       {func(_ *Key, g [][]byte) [][]byte { return slices.Insert(g, 2, g[1]) }, "repeated 4-5;"},
	"a group is cut":               {func(_ *Key, g [][]byte) [][]byte { g[1] = g[1][:len(g[1])-5]; return g }, "unreadable 4-4;missing 4-5;"},
	"a group is nonsense":          {func(_ *Key, g [][]byte) [][]byte { return slices.Insert(g, 1, []byte("hello")) }, "unreadable 4-4;"},
	"a group of another key":       {func(_ *Key, g [][]byte) [][]byte { return slices.Insert(g, 2, foreign(g[0])) }, "forged 6-6;"},
	"the header of a group":        {func(_ *Key, g [][]byte) [][]byte { g[1][len(importedMagic)+chainSize+15]++; return g }, "forged 4-5;"},
	"the seal of a group":          {func(_ *Key, g [][]byte) [][]byte { g[1][len(g[1])-1]++; return g }, "forged 4-5;"},
	"the end is replaced by fakes": {func(_ *Key, g [][]byte) [][]byte { return append(g[:3], fake(g[2], 9, 2)) }, "forged 9-10;changed 10-10;"},
}

// rewrite changes the entries of a group and computes everything anew that can
// be computed without the key.
func rewrite(key *Key, groups [][]byte, i int, change func([][]byte) [][]byte) [][]byte {
	g, err := decodeImported(groups[i])
	if err != nil {
		panic(err)
	}
	var entries [][]byte
	for _, s := range g.entries {
		entries = append(entries, s.json)
	}
	stranger, _ := NewKey(make([]byte, KeySize))
	stranger.chain = key.chain
	groups[i], _ = stranger.appendImported(nil, Head{g.first - 1, g.previous}, g.at, change(entries))
	return groups
}

// foreign is a group that claims to follow entry 5, by somebody without the
// key.
func foreign(like []byte) []byte { return fake(like, 6, 1) }

func fake(like []byte, first uint64, n int) []byte {
	g, err := decodeImported(like)
	if err != nil {
		panic(err)
	}
	stranger, _ := NewKey(make([]byte, KeySize))
	stranger.chain = g.chain
	data, _ := stranger.appendImported(nil, Head{Seq: first - 1}, g.at, slices.Repeat([][]byte{[]byte(`{"event":"x"}`)}, n))
	return data
}

// tamperings do it to a trail as it is written now.
var tamperings = map[string]struct {
	tamper func(key *Key, groups [][]byte) [][]byte
	want   string
}{
	"a byte is changed": {func(_ *Key, g [][]byte) [][]byte { g[2][len(g[2])/2] ^= 1; return g }, "unreadable 6-6;missing 6-8;"},
	"a byte is changed and the sum made good": {func(_ *Key, g [][]byte) [][]byte {
		return sum(g, 2, func(group []byte) { group[len(group)-40] ^= 1 })
	}, "changed 6-8;"},
	"the seal of a group": {func(_ *Key, g [][]byte) [][]byte {
		return sum(g, 1, func(group []byte) { group[len(group)-1]++ })
	}, "changed 4-5;"},
	"the hash of the group before": {func(_ *Key, g [][]byte) [][]byte {
		return sum(g, 1, func(group []byte) { group[60]++ })
	}, "changed 4-5;"},
	"a group is sealed by somebody else": {func(_ *Key, g [][]byte) [][]byte {
		return sum(g, 1, func(group []byte) {
			stranger, _ := NewKey(make([]byte, KeySize))
			seal := stranger.sealGroup(hashGroup(group[12 : len(group)-32]))
			copy(group[len(group)-32:], seal[:])
		})
	}, "changed 4-5;"},
	"a group is deleted":          {func(_ *Key, g [][]byte) [][]byte { return slices.Delete(g, 1, 2) }, "missing 4-5;"},
	"the first group is deleted":  {func(_ *Key, g [][]byte) [][]byte { return g[1:] }, "missing 1-3;"},
	"the last group is deleted":   {func(_ *Key, g [][]byte) [][]byte { return g[:3] }, "truncated 9-10;"},
	"everything is deleted":       {func(*Key, [][]byte) [][]byte { return nil }, "truncated 1-10;"},
	"two groups change places":    {func(_ *Key, g [][]byte) [][]byte { g[1], g[2] = g[2], g[1]; return g }, "reordered 4-5;"},
	"the last two change places":  {func(_ *Key, g [][]byte) [][]byte { g[2], g[3] = g[3], g[2]; return g }, "reordered 6-8;"},
	"the first two change places": {func(_ *Key, g [][]byte) [][]byte { g[0], g[1] = g[1], g[0]; return g }, "reordered 1-3;"},
	"a group is there twice":      {func(_ *Key, g [][]byte) [][]byte { return slices.Insert(g, 2, g[1]) }, "repeated 4-5;"},
	"a group is cut":              {func(_ *Key, g [][]byte) [][]byte { g[1] = g[1][:len(g[1])-5]; return g }, "unreadable 4-4;missing 4-5;"},
	"a group is nonsense":         {func(_ *Key, g [][]byte) [][]byte { return slices.Insert(g, 1, []byte("hello")) }, "unreadable 4-4;"},
}

// sum changes a group and makes its checksum good.
func sum(groups [][]byte, i int, change func(group []byte)) [][]byte {
	change(groups[i])
	binary.LittleEndian.PutUint32(groups[i][4:], crc32.Checksum(groups[i][8:], crc32.MakeTable(crc32.Castagnoli)))
	return groups
}

func TestTamperingIsFoundAndLocated(t *testing.T) {
	for kind, all := range map[string]struct {
		chain func(testing.TB, *Key, ...int) (*memoryLog, Head)
		cases map[string]struct {
			tamper func(key *Key, groups [][]byte) [][]byte
			want   string
		}
	}{"imported": {importedOf, importedTamperings}, "own": {chainOf, tamperings}} {
		for name, c := range all.cases {
			t.Run(kind+"/"+name, func(t *testing.T) {
				key := testKey(t, 1)
				log, head := all.chain(t, key, 3, 2, 3, 2)
				log.groups = c.tamper(key, log.groups)
				r := verify(t, log, key, head)
				if got := found(r); got != c.want || r.OK {
					t.Errorf("found %s, want %s: %+v", got, c.want, r.Problems)
				}
			})
		}
	}
}

func TestAChainRewrittenWithTheKeyIsFoundByAHeadNotedElsewhere(t *testing.T) {
	key := testKey(t, 1)
	for _, chain := range []func(testing.TB, *Key, ...int) (*memoryLog, Head){chainOf, importedOf} {
		_, head := chain(t, key, 3, 2)
		other, _ := chain(t, key, 2, 3) // other entries
		if got := found(verify(t, other, key)); got != "" {
			t.Fatalf("found %s", got)
		}
		if got := found(verify(t, other, key, head)); got != "changed 5-5;" {
			t.Errorf("found %s", got)
		}
	}
}

func TestEntriesOfAnotherChainAreCountedOnly(t *testing.T) {
	key := testKey(t, 1)
	log, head := chainOf(t, key, 2)
	old, _ := chainOf(t, testKey(t, 2), 4)
	log.groups = append(old.groups, log.groups...)
	r := verify(t, log, key, head)
	if !r.OK || r.Unverified != 4 || r.Entries != 2 {
		t.Errorf("%+v", r)
	}
}

func FuzzBlock(f *testing.F) {
	own, _ := chainOf(f, testKey(f, 1), 3)
	imported, _ := importedOf(f, testKey(f, 1), 3)
	f.Add(own.groups[0])
	f.Add(imported.groups[0])
	f.Add([]byte(importedMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		key := testKey(t, 1)
		for _, data := range [][]byte{data, resummed(data)} {
			b := decodeBlock(data)
			for _, g := range b.groups {
				if len(g.entries) == 0 || g.last() < g.first {
					t.Error("a group of nothing")
				}
				g.genuine(key)
				for i, s := range g.entries {
					e, err := decode(s, g.first+uint64(i))
					if err == nil && s.json == nil && len(e.Reason) > 1<<20 {
						t.Error("a reason out of nothing")
					}
				}
			}
			v := verifier{key: key}
			v.block(1, data)
			v.end()
		}
	})
}

// resummed is data with a good checksum, where it has room for one.
func resummed(data []byte) []byte {
	data = bytes.Clone(data)
	if len(data) > 12 {
		if end := 12 + int(binary.LittleEndian.Uint32(data[8:])); end > 12 && end <= len(data) {
			binary.LittleEndian.PutUint32(data[4:], crc32.Checksum(data[8:end], crc32.MakeTable(crc32.Castagnoli)))
		}
	}
	return data
}

func openTrail(t testing.TB, log RemoteLog, change ...func(*Options)) *Trail {
	t.Helper()
	o := Options{Log: log, Key: testKey(t, 1), BridgeID: "b"}
	for _, c := range change {
		c(&o)
	}
	if o.Local == nil {
		o.Local = openLocal(t, t.TempDir(), evidence.Options{GroupBlocks: log != nil})
	}
	trail, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return trail
}

func shut(t testing.TB, trail *Trail) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
	defer cancel()
	if err := errors.Join(trail.Close(ctx), trail.o.Local.Close()); err != nil {
		t.Error(err)
	}
}

// events lists what is in a log.
func events(t testing.TB, log *memoryLog) (all []string) {
	t.Helper()
	for _, e := range entries(t, log) {
		all = append(all, e.Event)
	}
	return all
}

func entries(t testing.TB, log *memoryLog) (all []Entry) {
	t.Helper()
	for _, data := range log.groups {
		b := decodeBlock(data)
		if len(b.damaged) > 0 {
			t.Fatal(b.damaged)
		}
		for _, g := range b.groups {
			for i, s := range g.entries {
				e, err := decode(s, g.first+uint64(i))
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, e)
			}
		}
	}
	return all
}

func TestATrailGoesOnAfterARestart(t *testing.T) {
	log := &memoryLog{}
	file := filepath.Join(t.TempDir(), "head")
	for range 3 {
		trail := openTrail(t, log, func(o *Options) { o.HeadFile = file })
		trail.Record(t.Context(), Entry{Event: "x.y", Code: OK})
		shut(t, trail)
	}
	want := slices.Repeat([]string{"audit.started", "x.y", "audit.stopped"}, 3)
	if got := events(t, log); !slices.Equal(got, want) {
		t.Errorf("recorded %q", got)
	}
	if r := verify(t, log, testKey(t, 1)); !r.OK || r.Last != 9 {
		t.Errorf("%+v", r)
	}
}

func TestEntriesCutOffWhileTheBridgeWasDownStayMissed(t *testing.T) {
	log := &memoryLog{}
	file := filepath.Join(t.TempDir(), "head")
	note := func(o *Options) { o.HeadFile = file }
	trail := openTrail(t, log, note)
	for range 5 {
		trail.Record(t.Context(), Entry{Event: "x.y", Code: OK})
		if err := trail.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	shut(t, trail)
	last := trail.Head().Seq
	log.groups = log.groups[:2]
	kept := entries(t, log)[len(entries(t, log))-1].Seq
	for range 2 {
		trail = openTrail(t, log, note)
		r, err := trail.Verify(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := found(r), fmt.Sprintf("missing %d-%d;", kept+1, last); got != want {
			t.Errorf("found %s, want %s", got, want)
		}
		shut(t, trail)
	}
	if !slices.Contains(events(t, log), "audit.lost") {
		t.Error("the trail itself does not say so")
	}
}

func TestWhatIsHeldIsWrittenInOneGroup(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		log := &memoryLog{}
		trail := openTrail(t, log)
		for range 1000 {
			trail.RecordHeld(t.Context(), Entry{Event: "x.y", Code: OK})
		}
		trail.Keep()
		time.Sleep(time.Second)
		groups := 0
		_ = log.Read(t.Context(), func(_ uint64, record []byte) error {
			groups += len(decodeBlock(record).groups)
			return nil
		})
		if groups != 2 { // audit.started has its own
			t.Errorf("%d groups", groups)
		}
		shut(t, trail)
		if n := len(events(t, log)); n != 1002 {
			t.Errorf("%d entries", n)
		}
	})
}

func TestWhatCannotBeStoredWaitsAndThenRefuses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		log := &memoryLog{}
		trail := openTrail(t, log)
		if err := trail.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		log.fail(errors.New("away"))
		long := map[string]string{"text": string(bytes.Repeat([]byte("x"), 200))}
		n := 0
		for ; trail.Admit() == nil; n++ {
			trail.Record(t.Context(), Entry{Event: "x.y", Code: OK, Details: long})
			if n%1000 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(time.Second)
		if err := trail.Admit(); err == nil || err.Error() != "5001: the audit trail cannot be stored" {
			t.Errorf("admits with %v", err)
		}
		for i := range 7 { // refusals find no room, changes do
			trail.Record(t.Context(), Entry{Event: LoginFailed, Code: "2002", Security: true, Address: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})})
		}
		trail.Record(t.Context(), Entry{Event: "last.change", Code: OK})
		log.fail(nil)
		time.Sleep(time.Minute)
		if err := trail.Admit(); err != nil {
			t.Error(err)
		}
		shut(t, trail)
		all := entries(t, log)
		changes, gaps := 0, 0
		for _, e := range all {
			switch e.Event {
			case "x.y", "last.change":
				changes++
			case "audit.gap":
				gaps++
				if e.Details["entries"] != "7" {
					t.Errorf("the gap is %v", e.Details)
				}
			case LoginFailed:
				t.Error("a refusal was recorded although there was no room")
			}
		}
		if changes != n+1 || gaps != 1 {
			t.Errorf("%d of %d changes, %d gaps", changes, n+1, gaps)
		}
		if r := verify(t, log, testKey(t, 1)); !r.OK {
			t.Errorf("%+v", r.Problems)
		}
	})
}

func TestOldEntriesAreForgottenAndTheRestStillVerifies(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		log := &memoryLog{}
		trail := openTrail(t, log, func(o *Options) { o.KeepFor = time.Hour })
		for range 30 {
			trail.Record(t.Context(), Entry{Event: "x.y", Code: OK})
			time.Sleep(10 * time.Minute)
		}
		synctest.Wait() // until the trail has forgotten what is due by now
		r, err := trail.Verify(t.Context())
		if err != nil || !r.OK || r.First == 1 || r.Entries > 20 {
			t.Errorf("%+v, %v", r, err)
		}
		// What somebody else cuts off is still noticed.
		log.mu.Lock()
		log.groups, log.first = log.groups[2:], log.first+2
		log.mu.Unlock()
		first := r.First
		if r, _ = trail.Verify(t.Context()); found(r) != fmt.Sprintf("missing %d-%d;", first, r.First-1) {
			t.Errorf("found %s", found(r))
		}
		shut(t, trail)
	})
}

func TestATrailKeepsToItsSize(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		log := &memoryLog{}
		trail := openTrail(t, log, func(o *Options) { o.KeepSize = 20_000 })
		for range 500 {
			trail.Record(t.Context(), Entry{Event: "x.y", Code: OK})
			time.Sleep(time.Minute)
		}
		time.Sleep(time.Hour)
		if b, _ := log.Bounds(t.Context()); b.Bytes > 20_000 {
			t.Errorf("%d bytes", b.Bytes)
		}
		if r, err := trail.Verify(t.Context()); err != nil || !r.OK {
			t.Errorf("%+v, %v", r, err)
		}
		shut(t, trail)
	})
}

func TestEntriesAreWithinBounds(t *testing.T) {
	nasty := string(bytes.Repeat([]byte("é\"\\\x00\xff"), 200))
	log := &memoryLog{}
	trail := openTrail(t, log)
	r := trail.newRecord(Entry{Time: time.UnixMilli(0), Event: nasty, Code: nasty, Principal: nasty, Reason: nasty, RequestID: nasty,
		Details: map[string]string{nasty: nasty, "b": "c"}})
	r.on, r.digest = [2]string{nasty, nasty}, make([]byte, 16)
	trail.enqueue(r, true, false)
	shut(t, trail)
	e := entries(t, log)[1]
	data, err := json.Marshal(e)
	if err != nil || len(data) > 16<<10 {
		t.Fatalf("%v, %d bytes: %s", err, len(data), data)
	}
	if len(e.Reason) > maxText || len(e.Resource) > 2*maxText+1 || len(e.Details) != 2 || e.Digest != strings.Repeat("0", 32) {
		t.Errorf("%+v", e)
	}
}

func TestATamperedNoteIsFound(t *testing.T) {
	log := &memoryLog{}
	file := filepath.Join(t.TempDir(), "head")
	trail := openTrail(t, log, func(o *Options) { o.HeadFile = file })
	shut(t, trail)
	note, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, changed := range map[string]string{
		"nothing": string(note), "sequence": strings.Replace(string(note), `"head":"`, `"head":"9`, 1), "nonsense": "{",
	} {
		if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := VerifyLog(t.Context(), Options{Log: log, Key: testKey(t, 1), HeadFile: file})
		if err != nil || r.OK != (name == "nothing") {
			t.Errorf("%s was changed: %+v, %v", name, r, err)
		}
	}
}
