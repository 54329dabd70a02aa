package store

import (
	"fmt"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// A kept thing is somebody's.
type kept struct {
	Owner protocol.Party `json:"owner"`
	N     int            `json:"n"`
}

func (k *kept) KeptFor() protocol.Party { return k.Owner }

// A purse is a budget of some records for everybody.
type purse struct {
	mu   sync.Mutex
	most int
	of   map[protocol.Party]int
}

func (p *purse) Reserve(owner protocol.Party) *protocol.Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of[owner] >= p.most {
		return protocol.Errorf(protocol.LimitReached, "enough")
	}
	p.of[owner]++
	return nil
}

func (p *purse) Count(owner protocol.Party, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[owner] += n
}

func (p *purse) spent(owner protocol.Party) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[owner]
}

func TestABudgetBoundsWhatIsKept(t *testing.T) {
	ctx := t.Context()
	p := &purse{most: 3, of: make(map[protocol.Party]int)}
	s := open(t, embedded(t, t.TempDir()), Options{Budget: p})
	things := NewTable[kept](s, "kept")
	load(t, s)
	lamp := protocol.Party{Kind: protocol.KindAgent, Space: "home", ID: "lamp"}
	expect := func(what string, want int) {
		t.Helper()
		if n := p.spent(lamp); n != want {
			t.Errorf("%s: %d are counted, want %d", what, n, want)
		}
	}
	var revision uint64
	for i := range 3 {
		var err error
		if revision, err = things.Create(ctx, fmt.Sprint(i), &kept{Owner: lamp}); err != nil {
			t.Fatal(err)
		}
	}
	expect("three", 3)
	for what, err := range map[string]error{
		"create": func() error { _, err := things.Create(ctx, "more", &kept{Owner: lamp}); return err }(),
		"put":    func() error { _, err := things.Put(ctx, "more", &kept{Owner: lamp}); return err }(),
		"atomic": s.Atomic(ctx, things.CreateOp("a", &kept{Owner: lamp}), things.CreateOp("b", &kept{Owner: lamp})),
	} {
		if protocol.CodeOf(err) != protocol.LimitReached {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := things.Update(ctx, "2", &kept{Owner: lamp, N: 1}, revision); err != nil {
		t.Errorf("a change is refused: %v", err)
	}
	if _, err := things.Put(ctx, "1", &kept{Owner: lamp, N: 1}); err != nil {
		t.Errorf("a change is refused: %v", err)
	}
	expect("changed", 3)
	if err := things.Delete(ctx, "0", 0); err != nil {
		t.Fatal(err)
	}
	expect("one removed", 2)
	if _, err := things.Create(ctx, "1", &kept{Owner: lamp}); protocol.CodeOf(err) != protocol.AlreadyExists {
		t.Errorf("%v", err)
	}
	expect("one that was there", 2)
	if err := s.Atomic(ctx, things.CreateOp("a", &kept{Owner: lamp}), things.CreateOp("b", &kept{Owner: lamp})); protocol.CodeOf(err) != protocol.LimitReached {
		t.Errorf("two where one fits: %v", err)
	}
	expect("nothing of two", 2)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { _, _ = things.Create(ctx, fmt.Sprint("at-once-", i), &kept{Owner: lamp}) })
	}
	all.Wait()
	expect("many at once", 3)
	if n := things.Len(); n != 3 {
		t.Errorf("%d are there", n)
	}
}
