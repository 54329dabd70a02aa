package audit

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// memoryBirths is a registry that is not loaded at first.
type memoryBirths struct {
	mu    sync.Mutex
	birth *Birth
}

func (b *memoryBirths) Birth(context.Context) (*Birth, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.birth, nil
}

func (b *memoryBirths) SetBirth(_ context.Context, birth Birth) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.birth = &birth
	return nil
}

// kinds are those of a report's problems.
func kinds(r Report) (found []string) {
	for _, p := range r.Problems {
		found = append(found, p.Kind)
	}
	return found
}

// A born trail has entries, and was closed.
type bornTrail struct {
	log    *memoryLog
	births *memoryBirths
	head   string
}

func bearTrail(t *testing.T) *bornTrail {
	t.Helper()
	b := &bornTrail{log: &memoryLog{}, births: &memoryBirths{}, head: filepath.Join(t.TempDir(), "audit.head")}
	trail := b.open(t)
	for range 3 {
		trail.Record(t.Context(), Entry{Event: "test.do", Code: OK})
	}
	b.close(t, trail)
	return b
}

func (b *bornTrail) open(t *testing.T, change ...func(*Options)) *Trail {
	t.Helper()
	return openTrail(t, b.log, append([]func(*Options){func(o *Options) {
		o.Births, o.HeadFile = b.births, b.head
	}}, change...)...)
}

func (b *bornTrail) close(t *testing.T, trail *Trail) {
	t.Helper()
	shut(t, trail)
}

func (b *bornTrail) verify(t *testing.T, key byte) Report {
	t.Helper()
	r, err := VerifyLog(t.Context(), Options{Log: b.log, Key: testKey(t, key), HeadFile: b.head, Births: b.births})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestATrailThatWasRemovedWithItsHeadIsMissed(t *testing.T) {
	b := bearTrail(t)
	if r := b.verify(t, 1); !r.OK {
		t.Fatalf("of a sound trail: %+v", r.Problems)
	}
	b.log, b.head = &memoryLog{}, filepath.Join(t.TempDir(), "audit.head")
	if r := b.verify(t, 1); r.OK || !slices.Equal(kinds(r), []string{problemTruncated}) {
		t.Errorf("before the next start: %+v", r.Problems)
	}
	for range 2 { // and ever after
		trail := b.open(t)
		if trail.problems.Load() == 0 && trail.Head().Seq < 5 {
			t.Error("the next start says nothing")
		}
		r, err := trail.Verify(t.Context())
		if err != nil || r.OK || !slices.Contains(kinds(r), problemMissing) {
			t.Errorf("after the next start: %v, %+v", err, r.Problems)
		}
		b.close(t, trail)
	}
}

func TestAYoungerTrailIsNoticed(t *testing.T) {
	b := bearTrail(t)
	other := bearTrail(t) // with the same key
	for range 2 {
		trail := other.open(t)
		other.close(t, trail)
	}
	b.log, b.head = other.log, other.head
	trail := b.open(t)
	if trail.problems.Load() != 1 {
		t.Error("the start says nothing")
	}
	if r, err := trail.Verify(t.Context()); err != nil || r.OK || !slices.Contains(kinds(r), problemChanged) {
		t.Errorf("%v, %+v", err, r.Problems)
	}
	b.close(t, trail)
	if r := b.verify(t, 1); r.OK {
		t.Error("the record of the birth was replaced")
	}
}

func TestAnotherKeyIsNoticed(t *testing.T) {
	b := bearTrail(t)
	with := func(key byte) func(*Options) { return func(o *Options) { o.Key = testKey(t, key) } }
	trail := b.open(t, with(2))
	if trail.problems.Load() != 1 {
		t.Error("the start says nothing")
	}
	r, err := trail.Verify(t.Context())
	if err != nil || r.OK || !slices.Equal(kinds(r), []string{problemKey}) || !strings.Contains(r.Problems[0].Text, "audit.key") {
		t.Errorf("%v, %+v", err, r.Problems)
	}
	b.close(t, trail)
	if r := b.verify(t, 2); !slices.Equal(kinds(r), []string{problemKey}) {
		t.Errorf("of a bridge that is stopped: %+v", r.Problems)
	}

	trail = b.open(t, with(2), func(o *Options) { o.AcceptLoss = true })
	if r, err := trail.Verify(t.Context()); err != nil || trail.problems.Load() > 1 {
		t.Errorf("%v, %+v", err, r.Problems)
	}
	b.close(t, trail)
	if r := b.verify(t, 2); !r.OK || r.Unverified == 0 {
		t.Errorf("accepted, but %+v", r)
	}
	if r := b.verify(t, 1); r.OK {
		t.Error("the key of before counts as well")
	}
}

func TestAChangedBirthIsNoticed(t *testing.T) {
	for name, change := range map[string]func(*Birth){
		"first": func(b *Birth) { b.First = b.Head },
		"head":  func(b *Birth) { b.Head = b.First },
		"time":  func(b *Birth) { b.At = b.At.Add(1) },
		"mac":   func(b *Birth) { b.MAC = nil },
		"chain": func(b *Birth) { b.Chain = "0000000000000000" },
	} {
		b := bearTrail(t)
		changed := *b.births.birth
		change(&changed)
		b.births.birth = &changed
		if r := b.verify(t, 1); r.OK {
			t.Errorf("%s: not noticed", name)
		}
		trail := b.open(t)
		if trail.problems.Load() != 1 {
			t.Errorf("%s: the start says nothing", name)
		}
		b.close(t, trail)
		if r := b.verify(t, 1); r.OK {
			t.Errorf("%s: mended by a start", name)
		}
	}
}

// A trail of an earlier version has no birth on record. It gets one.
func TestATrailWithoutBirthGetsOne(t *testing.T) {
	b := bearTrail(t)
	b.births.birth = nil
	first := b.log.groups[0]
	trail := b.open(t)
	if trail.problems.Load() != 0 {
		t.Error("a trail of before is called damaged")
	}
	b.close(t, trail)
	g := decodeBlock(first).groups[0]
	if got, want := b.births.birth.First, g.head().String(); got != want {
		t.Errorf("born with %s, want %s", got, want)
	}
	if r := b.verify(t, 1); !r.OK {
		t.Errorf("%+v", r.Problems)
	}
	b.log, b.head = &memoryLog{}, b.head+".gone"
	if r := b.verify(t, 1); r.OK {
		t.Error("removed, and not missed")
	}
}
