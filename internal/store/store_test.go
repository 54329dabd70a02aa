package store

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		writeUntilKilled(dir)
	}
	goleak.VerifyTestMain(m)
}

// thing is what the tests store.
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

// open opens a store on the servers' connections.
func open(t testing.TB, n *natsd.Server, options Options) *Store {
	t.Helper()
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

// eventually polls until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("in 20 s it did not happen that %s", what)
		}
		time.Sleep(2 * time.Millisecond)
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
	ra, err := things.Put(ctx, "a", &thing{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if err := things.Delete(ctx, "a", 0); err != nil {
		t.Fatal(err)
	}
	ra, err = things.Put(ctx, "a", &thing{Name: "a"})
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
