package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func claim(n int, life time.Duration) commands.Claim {
	id := fmt.Sprintf("request-%d", n)
	return commands.Claim{
		Principal: "operator/anna",
		RequestID: id,
		Hash:      sha256.Sum256([]byte(id)),
		Expires:   time.Now().Add(life).Truncate(time.Millisecond),
	}
}

// pending are the pending claims by request id.
func pending(s *Store) map[string]commands.Claim {
	got := make(map[string]commands.Claim)
	s.Claims().Pending(func(c commands.Claim) bool {
		got[c.RequestID] = c
		return true
	})
	return got
}

func TestClaimsArePendingAfterRestart(t *testing.T) {
	dir := t.TempDir()
	n := embedded(t, dir)
	s := open(t, n, Options{})
	load(t, s)

	const count = 200
	want := claim(7, 10*time.Minute)
	var wg sync.WaitGroup
	for i := range count {
		c := claim(i, 10*time.Minute)
		if i == 7 {
			c = want
		}
		wg.Go(func() {
			if err := s.Claims().Claim(context.Background(), c); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := pending(s); len(got) != 0 {
		t.Errorf("%d claims of the process itself are pending", len(got))
	}
	s.Close()
	n.Close()

	s = open(t, embedded(t, dir), Options{})
	load(t, s)
	got := pending(s)
	if len(got) != count {
		t.Fatalf("%d claims pending, want %d", len(got), count)
	}
	if c := got[want.RequestID]; c.Principal != want.Principal || c.Hash != want.Hash || !c.Expires.Equal(want.Expires) {
		t.Errorf("pending claim = %+v, want %+v", c, want)
	}
}

func TestExpiredClaimsAreDropped(t *testing.T) {
	dir := t.TempDir()
	n := embedded(t, dir)
	s := open(t, n, Options{})
	load(t, s)
	ctx := context.Background()
	if err := s.Claims().Claim(ctx, claim(1, -time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := s.Claims().Claim(ctx, claim(2, 10*time.Minute)); err != nil {
		t.Fatal(err)
	}
	messages := func() uint64 {
		info, err := inspect(ctx, s.flow, s.names.claims)
		if err != nil {
			t.Fatal(err)
		}
		return info.State.Messages
	}
	eventually.Holds(t, "the stream drops the expired record", func() bool { return messages() == 1 })
	s.Close()

	s = open(t, n, Options{})
	load(t, s)
	if got := pending(s); len(got) != 1 || got["request-2"].RequestID == "" {
		t.Errorf("pending = %v, want request-2 alone", got)
	}
}

func TestAClaimMayNotOutliveItsStream(t *testing.T) {
	s, _ := fresh(t)
	if err := s.Claims().Claim(context.Background(), claim(1, time.Hour)); err == nil {
		t.Error("claimed for an hour")
	}
}

func TestClaimsFailAfterClose(t *testing.T) {
	s, _ := fresh(t)
	s.Close()
	err := s.Claims().Claim(context.Background(), claim(1, 10*time.Minute))
	wantCode(t, err, protocol.ShuttingDown)
}

func TestClaimsThatDoNotFitAreRefused(t *testing.T) {
	s := open(t, embedded(t, t.TempDir()), Options{ClaimBytes: 1000})
	load(t, s)
	ctx := context.Background()
	var err error
	for i := 0; err == nil && i < 100; i++ {
		err = s.Claims().Claim(ctx, claim(i, 10*time.Minute))
	}
	wantCode(t, err, protocol.StoreUnavailable)
}

func FuzzClaimRecord(f *testing.F) {
	f.Add(beginClaims())
	f.Add(appendClaim(appendClaim(beginClaims(), claim(1, 10*time.Minute)), claim(2, 0)))
	f.Add([]byte{claimSchema, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{claimSchema + 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		again := beginClaims()
		for c, err := range claimsOf(data) {
			if err != nil {
				return
			}
			again = appendClaim(again, c)
		}
		var first, second []commands.Claim
		for c := range claimsOf(data) {
			first = append(first, c)
		}
		for c, err := range claimsOf(again) {
			if err != nil {
				t.Fatal(err)
			}
			second = append(second, c)
		}
		if fmt.Sprint(first) != fmt.Sprint(second) {
			t.Errorf("%v became %v", first, second)
		}
	})
}
