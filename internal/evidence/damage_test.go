package evidence

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/eventually"
)

// mixed is a segment of groups of claims, of entries and of both, in two blocks,
// and what is in each group.
func mixed() (w *groupWriter, claims []string, texts [][]string) {
	w = writerFrom(1)
	add := func(who, what string) { w.log.Add(textEntry{who, what}) }
	w.claim(claim(1, time.Minute))
	w.group()
	texts = append(texts, nil)
	w.claim(claim(2, time.Minute))
	add("anna", "one")
	add("bert", "two")
	w.group()
	texts = append(texts, []string{"anna=one", "bert=two"})
	add("anna", "three")
	w.group()
	texts = append(texts, []string{"anna=three"})
	w.log.roll = true // another block
	w.claim(claim(3, time.Minute))
	add("anna", "four")
	w.group()
	texts = append(texts, []string{"anna=four"})
	return w, []string{"request-1", "request-2", "request-2", "request-3"}, texts
}

// TestATornEndIsCutOff cuts a segment at every byte: what was whole before is
// there, and the file is mended.
func TestATornEndIsCutOff(t *testing.T) {
	w, claims, texts := mixed()
	for size := range len(w.data) + 1 {
		dir := t.TempDir()
		writeSegment(t, dir, 1, w.data[:size])
		l := open(t, dir, Options{})
		whole, good := 0, 0
		for i, end := range w.ends {
			if end <= size {
				whole, good = i+1, end
			}
		}
		wantPending(t, l, slices.Compact(slices.Clone(claims[:whole]))...)
		if got, want := entries(t, l), slices.Concat(texts[:whole]...); !slices.Equal(got, want) {
			t.Fatalf("cut to %d: the entries are %q, want %q", size, got, want)
		}
		switch data, err := os.ReadFile(filepath.Join(dir, segmentName(1))); {
		case whole == 0 && len(segments(t, dir)) != 1:
			t.Fatalf("cut to %d: there are %q", size, segments(t, dir))
		case whole > 0 && (err != nil || string(data) != string(w.data[:good])+seal):
			t.Fatalf("cut to %d: %d bytes are left of %d, %v", size, len(data), good, err)
		}
		shut(t, l)
		again := open(t, dir, Options{}) // what was mended is sound
		if got := len(pending(again)); got != len(pending(l)) {
			t.Errorf("cut to %d: %d pending after another restart", size, got)
		}
		shut(t, again)
	}
}

// TestDamageIsNeverPassedOver flips a bit of every byte of a segment, finished or
// not: the start names it, unless it looks like a write that was cut short; told
// to go on, the rest is there, nothing is taken for what it is not, and who reads
// the log sees the damage.
func TestDamageIsNeverPassedOver(t *testing.T) {
	w, _, texts := mixed()
	all := slices.Concat(texts...)
	for _, end := range []string{"", seal} {
		for at := range w.data {
			dir := t.TempDir()
			data := append(slices.Clone(w.data), end...)
			data[at] ^= 1 << (at % 8)
			writeSegment(t, dir, 1, data)
			lastGroup := at >= w.ends[len(w.ends)-2]
			l, err := Open(dir, Options{})
			if err == nil {
				if end != "" || !lastGroup {
					t.Fatalf("byte %d, end %q: opened a damaged log", at, end)
				}
				if got := entries(t, l); !slices.Equal(got, all[:len(all)-1]) {
					t.Fatalf("byte %d: cut off, and the entries are %q", at, got)
				}
				shut(t, l)
				continue
			}
			if !strings.Contains(err.Error(), segmentName(1)) || !strings.Contains(err.Error(), "accept_loss") {
				t.Fatalf("byte %d: the error is %v", at, err)
			}
			if now, err := os.ReadFile(filepath.Join(dir, segmentName(1))); err != nil || string(now) != string(data) {
				t.Fatalf("byte %d: the damaged file was changed, %v", at, err)
			}
			l = open(t, dir, Options{AcceptLoss: true})
			got := entries(t, l)
			if !slices.Contains(got, "damage") {
				t.Fatalf("byte %d: the damage cannot be seen: %q", at, got)
			}
			for _, text := range got {
				// A group whose definitions were lost has no name for a number,
				// and never another.
				if text != "damage" && !slices.Contains(all, text) && !strings.HasPrefix(text, "=") {
					t.Fatalf("byte %d: read %q", at, text)
				}
			}
			shut(t, l)
		}
	}
}

// TestADamagedIndexIsMadeAnew flips every byte of an index, and removes it.
func TestADamagedIndexIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{SegmentBytes: 1000})
	l.Chain(new(testChain))
	for i := range 30 {
		l.Add(textEntry{"who", fmt.Sprint(i)})
		l.Keep()
	}
	want := entries(t, l)
	shut(t, l)
	files, err := filepath.Glob(filepath.Join(dir, "*"+indexSuffix))
	if err != nil || len(files) < 3 {
		t.Fatalf("%q, %v", files, err)
	}
	index, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(index); at += 1 + len(index)/200 {
		damaged := slices.Clone(index)
		damaged[at] ^= 1
		if err := os.WriteFile(files[1], damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		l := open(t, dir, Options{})
		if got := entries(t, l); !slices.Equal(got, want) {
			t.Fatalf("byte %d: read %q", at, got)
		}
		shut(t, l)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	l = open(t, dir, Options{})
	if got := entries(t, l); !slices.Equal(got, want) {
		t.Fatalf("without indexes: read %q", got)
	}
	if !l.Finder("nobody").May(1) {
		t.Error("a block of which nobody knows what is in it is passed over")
	}
	shut(t, l)
}

// TestWhatCannotBeWrittenIsWrittenLater has the disk fail in the middle of claims
// and entries: the claims are refused, the entries are there afterwards, in
// order and once.
func TestWhatCannotBeWrittenIsWrittenLater(t *testing.T) {
	dir, disk := t.TempDir(), newBadDisk()
	l := open(t, dir, Options{create: disk.create})
	l.Chain(new(testChain))
	var want []string
	add := func(n int) {
		want = append(want, fmt.Sprintf("who-%d=%d", n%3, n))
		if !l.Add(textEntry{fmt.Sprintf("who-%d", n%3), fmt.Sprint(n)}) {
			t.Fatal("not taken")
		}
	}
	add(1)
	mustClaim(t, l, claim(1, time.Minute))
	disk.writes.Store(true)
	disk.room.Store(70)
	for n := 2; n < 8; n++ {
		add(n)
		if err := l.Claim(t.Context(), claim(n, time.Minute)); err == nil {
			t.Error("a claim that was not written is made")
		}
		l.Keep()
	}
	if l.Waiting() == 0 || !l.Failing() {
		t.Error("nothing waits")
	}
	disk.writes.Store(false)
	add(8)
	if err := l.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l.Waiting() != 0 {
		t.Errorf("%d bytes wait", l.Waiting())
	}
	mustClaim(t, l, claim(9, time.Minute))
	add(9)
	shut(t, l)
	l = open(t, dir, Options{})
	if got := entries(t, l); !slices.Equal(got, want) {
		t.Errorf("the entries are %q, want %q", got, want)
	}
	wantPending(t, l, "request-1", "request-9")
}

// TestBlocksAreFoundWithoutReadingAll fills many and asks for one.
func TestBlocksAreFoundWithoutReadingAll(t *testing.T) {
	dir := t.TempDir()
	fill := func(l *Log) {
		l.Chain(new(testChain))
		for i := range 100 {
			l.Add(textEntry{fmt.Sprintf("trace-%d", i), "x"})
			l.Keep()
		}
	}
	l := open(t, dir, Options{SegmentBytes: 2000})
	fill(l)
	check := func(l *Log) {
		t.Helper()
		b, err := l.Bounds(t.Context())
		if err != nil || b.Last < 20 {
			t.Fatalf("%+v, %v", b, err)
		}
		finder, may := l.Finder("trace-50"), 0
		for at := b.First; at <= b.Last; at++ {
			if finder.May(at) {
				may++
				block, err := l.Get(t.Context(), at)
				if err != nil || !strings.Contains(string(block), "trace-50") {
					t.Errorf("block %d does not have it, %v", at, err)
				}
			}
		}
		if may != 1 {
			t.Errorf("%d blocks may have it", may)
		}
		at := l.BySeq(51)
		if block, err := l.Get(t.Context(), at); err != nil || !strings.Contains(string(block), "trace-50") {
			t.Errorf("entry 51 is not in block %d, %v", at, err)
		}
		if at := l.BySeq(101); at != b.Last+1 {
			t.Errorf("an entry to come is in block %d of %d", at, b.Last)
		}
	}
	check(l)
	shut(t, l)
	check(open(t, dir, Options{}))
}

// TestRetentionForgetsWholeSegments trims, but not what has claims of use.
func TestRetentionForgetsWholeSegments(t *testing.T) {
	l := open(t, t.TempDir(), Options{SegmentBytes: 600})
	l.Chain(new(testChain))
	for i := range 50 {
		l.Add(textEntry{"who", fmt.Sprint(i)})
		l.Keep()
	}
	mustClaim(t, l, claim(1, time.Minute))
	for i := range 50 {
		l.Add(textEntry{"who", fmt.Sprint(50 + i)})
		l.Keep()
	}
	eventually.Holds(t, "finished segments are closed", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, s := range l.segments[:len(l.segments)-1] {
			if !s.closed.Load() {
				return false
			}
		}
		return true
	})
	all := entries(t, l)
	b, _ := l.Bounds(t.Context())
	kept := l.Kept(b.First + 9)
	if kept <= b.First || kept > b.First+9 {
		t.Fatalf("keeps from %d on, of %d", kept, b.First)
	}
	if err := l.Trim(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	got := entries(t, l)
	if b, _ := l.Bounds(t.Context()); b.First != kept || len(got) >= len(all) || !slices.Equal(got, all[len(all)-len(got):]) {
		t.Errorf("from %d on there are %d of %d entries", b.First, len(got), len(all))
	}
	if err := l.Trim(t.Context(), b.Last); err != nil {
		t.Fatal(err)
	}
	if got := entries(t, l); len(got) < 50 {
		t.Errorf("a segment with a claim of use is gone: %d entries are left", len(got))
	}
}
