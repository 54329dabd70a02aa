package store

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		if os.Getenv(crashJournal) != "" {
			writeJournalUntilKilled(dir)
		}
		writeUntilKilled(dir)
	}
	leaks.Verify(m)
}

// thing is the value that the tests store.
type thing struct {
	Name string `json:"name"`
	N    int    `json:"n,omitempty"`
}

// embedded starts the embedded servers on dir.
func embedded(t testing.TB, dir string) *natsd.Server {
	t.Helper()
	s, err := natsd.Start(natsd.Options{Dir: dir, Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// patient has no write given up because the machine is slow.
func patient(options Options) Options {
	if options.WriteTimeout == 0 {
		options.WriteTimeout = eventually.Patience
	}
	return options
}

// open opens a store on the servers' connections.
func open(t testing.TB, n *natsd.Server, options Options) *Store {
	t.Helper()
	options = patient(options)
	options.Log = testLog(t)
	s, err := Open(t.Context(), Conns{State: n.State(), Flow: n.Flow()}, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func load(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// fresh is a loaded store with one table on servers of its own.
func fresh(t testing.TB) (*Store, *Table[thing]) {
	t.Helper()
	s := open(t, embedded(t, t.TempDir()), Options{})
	things := NewTable[thing](s, "thing")
	load(t, s)
	return s, things
}

func wantCode(t *testing.T, err error, want protocol.Code) {
	t.Helper()
	if got := protocol.CodeOf(err); got != want {
		t.Errorf("error = %v, want code %q", err, want)
	}
}

func TestWritesAreReadBackAtOnce(t *testing.T) {
	_, things := fresh(t)
	ctx := context.Background()

	r1, err := things.Create(ctx, "default/a", &thing{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	got, rev, ok := things.Get("default/a")
	if !ok || rev != r1 || got.Name != "a" {
		t.Fatalf("Get = %v, %d, %t", got, rev, ok)
	}
	_, err = things.Create(ctx, "default/a", &thing{Name: "b"})
	wantCode(t, err, protocol.AlreadyExists)

	r2, err := things.Update(ctx, "default/a", &thing{Name: "a2"}, r1)
	if err != nil || r2 <= r1 {
		t.Fatalf("Update = %d, %v", r2, err)
	}
	_, err = things.Update(ctx, "default/a", &thing{Name: "a3"}, r1)
	wantCode(t, err, protocol.RevisionConflict)
	wantCode(t, things.Delete(ctx, "default/a", r1), protocol.RevisionConflict)

	if err := things.Delete(ctx, "default/a", r2); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := things.Get("default/a"); ok || things.Len() != 0 {
		t.Fatal("deleted key is still there")
	}
	wantCode(t, things.Delete(ctx, "default/a", 0), protocol.NotFound)
	wantCode(t, things.Delete(ctx, "default/a", r2), protocol.NotFound)

	r3, err := things.Create(ctx, "default/a", &thing{Name: "again"})
	if err != nil || r3 <= r2 {
		t.Fatalf("Create after Delete = %d, %v", r3, err)
	}
	if err := things.Delete(ctx, "default/a", 0); err != nil {
		t.Fatal(err)
	}
}

func TestAtomicChangesAllOrNothing(t *testing.T) {
	s, things := fresh(t)
	ctx := context.Background()
	if _, err := things.Put(ctx, "a", &thing{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := things.Delete(ctx, "a", 0); err != nil {
		t.Fatal(err)
	}
	ra, err := things.Put(ctx, "a", &thing{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Atomic(ctx,
		things.PutOp("a", &thing{Name: "a2"}, ra),
		things.CreateOp("b", &thing{Name: "b"}),
		things.PutOp("c", &thing{Name: "c"}, 0),
	)
	if err != nil {
		t.Fatal(err)
	}
	if things.Len() != 3 {
		t.Fatalf("%d things", things.Len())
	}
	err = s.Atomic(ctx, things.PutOp("d", &thing{}, 0), things.CreateOp("b", &thing{}))
	wantCode(t, err, protocol.AlreadyExists)
	err = s.Atomic(ctx, things.PutOp("d", &thing{}, 0), things.PutOp("a", &thing{}, ra))
	wantCode(t, err, protocol.RevisionConflict)
	err = s.Atomic(ctx, things.PutOp("d", &thing{}, 0), things.DeleteOp("nobody", 0))
	wantCode(t, err, protocol.NotFound)
	if _, _, ok := things.Get("d"); ok {
		t.Fatal("a failed batch changed something")
	}
	// Over the marker of a deletion.
	if err := s.Atomic(ctx, things.DeleteOp("a", 0), things.DeleteOp("b", 0)); err != nil {
		t.Fatal(err)
	}
	if err := s.Atomic(ctx, things.CreateOp("a", &thing{}), things.CreateOp("b", &thing{})); err != nil {
		t.Fatal(err)
	}
}

func TestTheRevisionOfADeletionIsNobodys(t *testing.T) {
	s, things := fresh(t)
	ctx := context.Background()
	revision, err := things.Create(ctx, "a", &thing{})
	if err != nil {
		t.Fatal(err)
	}
	if err := things.Delete(ctx, "a", 0); err != nil {
		t.Fatal(err)
	}
	marker := revision + 1
	_, err = things.Update(ctx, "a", &thing{}, marker)
	wantCode(t, err, protocol.RevisionConflict)
	wantCode(t, things.Delete(ctx, "a", marker), protocol.NotFound)
	wantCode(t, s.Atomic(ctx, things.PutOp("a", &thing{}, marker), things.PutOp("b", &thing{}, 0)), protocol.RevisionConflict)
	if things.Len() != 0 {
		t.Errorf("%d things", things.Len())
	}
}

func TestConcurrentUpdatesAreNotLost(t *testing.T) {
	_, things := fresh(t)
	ctx := context.Background()
	if _, err := things.Create(ctx, "n", &thing{}); err != nil {
		t.Fatal(err)
	}
	const writers, each = 8, 20
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for done := 0; done < each; {
				v, revision, _ := things.Get("n")
				_, err := things.Update(ctx, "n", &thing{N: v.N + 1}, revision)
				switch {
				case err == nil:
					done++
				case protocol.CodeOf(err) != protocol.RevisionConflict:
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if v, _, _ := things.Get("n"); v.N != writers*each {
		t.Errorf("n = %d, want %d", v.N, writers*each)
	}
}

func TestOfManyCreatesOneSucceeds(t *testing.T) {
	s, things := fresh(t)
	ctx := context.Background()
	for round := range 20 {
		var created atomic.Int32
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				var err error
				if i%2 == 0 {
					_, err = things.Create(ctx, "a", &thing{N: i})
				} else {
					err = s.Atomic(ctx, things.CreateOp("a", &thing{N: i}), things.CreateOp("b", &thing{N: i}))
				}
				switch protocol.CodeOf(err) {
				case "":
					created.Add(1)
				case protocol.AlreadyExists:
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if created.Load() != 1 {
			t.Fatalf("round %d: created %d times", round, created.Load())
		}
		if err := things.Delete(ctx, "a", 0); err != nil {
			t.Fatal(err)
		}
		if err := things.Delete(ctx, "b", 0); err != nil && protocol.CodeOf(err) != protocol.NotFound {
			t.Fatal(err)
		}
	}
}

func TestWhatIsCreatedOnceIsNotCreatedAgain(t *testing.T) {
	_, things := fresh(t)
	ctx := context.Background()
	if _, err := things.CreateOnce(ctx, "a", &thing{N: 1}); err != nil {
		t.Fatal(err)
	}
	_, err := things.CreateOnce(ctx, "a", &thing{N: 2})
	wantCode(t, err, protocol.AlreadyExists)
	if err := things.Delete(ctx, "a", 0); err != nil {
		t.Fatal(err)
	}
	_, err = things.CreateOnce(ctx, "a", &thing{N: 3})
	wantCode(t, err, protocol.AlreadyExists)
	if v, _, there := things.Get("a"); there {
		t.Errorf("%v is there again", v)
	}
	if _, err := things.Create(ctx, "a", &thing{N: 4}); err != nil {
		t.Error(err)
	}
}

func TestOfManyDeletesOneSucceeds(t *testing.T) {
	_, things := fresh(t)
	ctx := context.Background()
	for range 20 {
		if _, err := things.Put(ctx, "a", &thing{}); err != nil {
			t.Fatal(err)
		}
		var deleted atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				switch err := things.Delete(ctx, "a", 0); protocol.CodeOf(err) {
				case "":
					deleted.Add(1)
				case protocol.NotFound:
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if deleted.Load() != 1 {
			t.Fatalf("deleted %d times", deleted.Load())
		}
	}
}

func TestManyAtomicChangesAtOnce(t *testing.T) {
	s, things := fresh(t)
	var wg sync.WaitGroup
	for i := range 100 { // more than NATS takes at once
		wg.Go(func() {
			err := s.Atomic(context.Background(),
				things.CreateOp(fmt.Sprintf("%d/a", i), &thing{N: i}), things.CreateOp(fmt.Sprintf("%d/b", i), &thing{N: i}))
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if things.Len() != 200 {
		t.Errorf("%d things", things.Len())
	}
}

func TestAtomicChangesHaveLimits(t *testing.T) {
	s, things := fresh(t)
	ctx := context.Background()
	if err := s.Atomic(ctx); err != nil {
		t.Errorf("nothing to change: %v", err)
	}
	if err := s.Atomic(ctx, things.PutOp("a", &thing{}, 0), things.DeleteOp("a", 1)); err == nil {
		t.Error("one key was changed twice")
	}
	var ops []Op
	for i := range maxBatch + 1 {
		ops = append(ops, things.PutOp(fmt.Sprint(i), &thing{}, 0))
	}
	wantCode(t, s.Atomic(ctx, ops...), protocol.LimitReached)
	if err := s.Atomic(ctx, ops[:maxBatch]...); err != nil {
		t.Error(err)
	}
	if things.Len() != maxBatch {
		t.Errorf("%d things", things.Len())
	}
}

func TestTablesAreApart(t *testing.T) {
	n := embedded(t, t.TempDir())
	s := open(t, n, Options{})
	a, ab := NewTable[thing](s, "a"), NewTable[skill](s, "ab")
	load(t, s)
	ctx := context.Background()
	if _, err := a.Create(ctx, "k", &thing{Name: "thing"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Atomic(ctx, a.CreateOp("l", &thing{}), ab.CreateOp("k", exampleSkill(1))); err != nil {
		t.Fatal(err)
	}
	if a.Len() != 2 || ab.Len() != 1 {
		t.Errorf("%d and %d keys", a.Len(), ab.Len())
	}
	s.Close()

	// A bridge that does not know one of them keeps it.
	s = open(t, n, Options{})
	NewTable[thing](s, "a")
	load(t, s)
	s.Close()
	s = open(t, n, Options{})
	ab = NewTable[skill](s, "ab")
	load(t, s)
	if got, _, _ := ab.Get("k"); got == nil || got.ID != exampleSkill(1).ID {
		t.Errorf("ab/k = %v", got)
	}
}

func TestALateListenerIsToldWhatIsThere(t *testing.T) {
	_, things := fresh(t)
	ctx := context.Background()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			key := fmt.Sprint(i % 7)
			if _, err := things.Put(ctx, key, &thing{N: i}); err != nil {
				t.Error(err)
			}
			if i%3 == 0 {
				if err := things.Delete(ctx, key, 0); err != nil {
					t.Error(err)
				}
			}
		}
	})
	told := make([]map[string]int, 20)
	for i := range told {
		told[i] = make(map[string]int)
		things.OnChange(func(key string, old, new *thing) {
			if n, there := told[i][key]; there != (old != nil) || there && n != old.N {
				t.Errorf("listener %d: %s was %v, told of %v", i, key, n, old)
			}
			if new == nil {
				delete(told[i], key)
			} else {
				told[i][key] = new.N
			}
		})
	}
	close(stop)
	wg.Wait()
	for i := range told {
		if len(told[i]) != things.Len() {
			t.Errorf("listener %d knows %d keys, there are %d", i, len(told[i]), things.Len())
		}
	}
}

func TestAStoreIsWrittenToBetweenLoadAndClose(t *testing.T) {
	s := open(t, embedded(t, t.TempDir()), Options{})
	things := NewTable[thing](s, "thing")
	ctx := context.Background()
	if _, err := things.Put(ctx, "a", &thing{}); err == nil {
		t.Error("written before Load")
	}
	load(t, s)
	if err := s.Load(ctx); err == nil {
		t.Error("loaded twice")
	}
	s.Close()
	_, err := things.Put(ctx, "a", &thing{})
	wantCode(t, err, protocol.ShuttingDown)
	wantCode(t, s.Atomic(ctx, things.PutOp("a", &thing{}, 0), things.PutOp("b", &thing{}, 0)), protocol.ShuttingDown)
}

func TestAfterAConflictTheViewHasTheReason(t *testing.T) {
	n := embedded(t, t.TempDir())
	var stores [2]*Store
	var tables [2]*Table[thing]
	for i := range stores {
		stores[i] = open(t, n, Options{})
		tables[i] = NewTable[thing](stores[i], "thing")
		load(t, stores[i])
	}
	mine, others := tables[0], tables[1]
	ctx := context.Background()
	revision, err := mine.Create(ctx, "a", &thing{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		r, err := others.Put(ctx, "a", &thing{N: i})
		if err != nil {
			t.Fatal(err)
		}
		_, err = mine.Update(ctx, "a", &thing{}, revision)
		wantCode(t, err, protocol.RevisionConflict)
		v, seen, ok := mine.Get("a")
		if !ok || seen != r || v.N != i {
			t.Fatalf("after the conflict: %v, %d, want revision %d", v, seen, r)
		}
		revision = seen
	}
	key := func(i int) string { return fmt.Sprint("key", i) }
	for i := range 100 {
		if _, err := others.Create(ctx, key(i), &thing{N: i}); err != nil {
			t.Fatal(err)
		}
		_, err = mine.Create(ctx, key(i), &thing{})
		wantCode(t, err, protocol.AlreadyExists)
		if v, _, ok := mine.Get(key(i)); !ok || v.N != i {
			t.Fatalf("after 3002 the view has %v", v)
		}
	}
}

func TestATableThatIsDeclaredLateIsOfNoUse(t *testing.T) {
	s, _ := fresh(t)
	late := NewTable[thing](s, "late")
	_, err := late.Put(context.Background(), "a", &thing{})
	if err == nil || !strings.Contains(err.Error(), "after loading") {
		t.Errorf("Put = %v", err)
	}
}

func TestNoValueIsNotStored(t *testing.T) {
	_, things := fresh(t)
	if _, err := things.Put(context.Background(), "a", nil); err == nil {
		t.Error("stored nil")
	}
}
