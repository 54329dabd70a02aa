package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// raw stores data in the registry as the store never would.
func raw(t *testing.T, s *Store, token, data string) {
	t.Helper()
	_, err := s.store(context.Background(), s.state, &nats.Msg{Subject: s.names.registryRoot + token, Data: []byte(data)})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatCannotBeReadIsNamedAtLoad(t *testing.T) {
	tests := []struct{ name, token, data, want string }{
		{"not a record", "thing.a=2Eb", `hello`, "thing.a=2Eb at revision 1: not a record"},
		{"another type", "thing.a", `{"v":1,"d":{"name":[]}}`, "thing.a at revision 1: decode the value"},
		{"a newer bridge's", "thing.a", `{"v":4,"d":{}}`, "thing.a at revision 1: written by a newer bridge"},
		{"a key nobody encoded", "thing.a.b", `{"v":1,"d":{}}`, "thing.a.b at revision 1: byte"},
		{"no key", "thing", `{"v":1,"d":{}}`, "thing at revision 1: empty key"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, embedded(t, t.TempDir()), Options{})
			NewTable[thing](s, "thing")
			raw(t, s, test.token, test.data)
			if err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Load = %v, want %q", err, test.want)
			}
		})
	}
}

func TestAClaimThatCannotBeReadIsNamedAtLoad(t *testing.T) {
	s := open(t, embedded(t, t.TempDir()), Options{})
	_, err := s.store(context.Background(), s.flow, &nats.Msg{Subject: s.names.claimsSubject, Data: []byte{sharedSchema + 1}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "aibridge-claims at revision 1: written by a newer bridge") {
		t.Errorf("Load = %v", err)
	}
}

func TestWhatCannotBeReadLaterLeavesTheViewAsItWas(t *testing.T) {
	s, things := fresh(t)
	ctx := context.Background()
	if _, err := things.Put(ctx, "a", &thing{Name: "good"}); err != nil {
		t.Fatal(err)
	}
	raw(t, s, "thing.a", "garbage")
	eventually.Holds(t, "it is noticed", func() bool {
		err := s.Check()
		return err != nil && strings.Contains(err.Error(), "thing.a at revision 2")
	}, func() any { return s.Check() })
	if v, _, _ := things.Get("a"); v.Name != "good" {
		t.Errorf("a = %v", v)
	}
	if _, err := things.Put(ctx, "a", &thing{Name: "mended"}); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "all is well after mending", func() bool { return s.Check() == nil }, func() any { return s.Check() })
}

// damagedStore has 100 things, is closed properly, and then has its file
// changed.
func damagedStore(t *testing.T, damage func(block string, data []byte) []byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	n := embedded(t, dir)
	s := open(t, n, Options{})
	things := NewTable[thing](s, "thing")
	load(t, s)
	for i := range 100 {
		if _, err := things.Put(context.Background(), fmt.Sprint(i), &thing{Name: fmt.Sprintf("value-%d-", i)}); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	n.Close()
	block := filepath.Join(dir, "state", "jetstream", "$G", "streams", s.names.registry, "msgs", "1.blk")
	data, err := os.ReadFile(block)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(block, damage(block, data), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestDamagedFilesAreNoticedAtLoad(t *testing.T) {
	flip := func(data []byte) []byte {
		data[bytes.Index(data, []byte("value-50-"))] ^= 1
		return data
	}
	cut := func(data []byte) []byte { return data[:bytes.Index(data, []byte("value-99-"))] }
	dropIndex := func(t *testing.T, block string) {
		t.Helper()
		if err := os.Remove(filepath.Join(filepath.Dir(block), "index.db")); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name   string
		damage func(t *testing.T, block string, data []byte) []byte
		want   string
	}{
		{"a changed byte", func(_ *testing.T, _ string, data []byte) []byte { return flip(data) },
			"has 100 messages but delivers only 99"},
		{"a changed byte, after a crash", func(t *testing.T, block string, data []byte) []byte {
			dropIndex(t, block)
			return flip(data)
		}, "50 keys or more are lost since revision 100"},
		{"the last value cut off", func(_ *testing.T, _ string, data []byte) []byte { return cut(data) },
			"1 keys or more are lost since revision 100"},
		{"the last value cut off, after a crash", func(t *testing.T, block string, data []byte) []byte {
			dropIndex(t, block)
			return cut(data)
		}, "1 keys or more are lost since revision 100"},
		{"no index", func(t *testing.T, block string, data []byte) []byte {
			dropIndex(t, block)
			return data
		}, ""},
		{"a write cut off by a crash", func(_ *testing.T, _ string, data []byte) []byte {
			return append(data, data[:40]...)
		}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := damagedStore(t, func(block string, data []byte) []byte { return test.damage(t, block, data) })
			s := open(t, embedded(t, dir), Options{})
			things := NewTable[thing](s, "thing")
			err := s.Load(t.Context())
			if test.want == "" {
				if err != nil || things.Len() != 100 {
					t.Errorf("Load = %v, %d things", err, things.Len())
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Load = %v, want %q", err, test.want)
			}
		})
	}
}

func TestALossIsAcceptedWhenTold(t *testing.T) {
	dir := damagedStore(t, func(_ string, data []byte) []byte { return data[:len(data)*2/3] })
	n := embedded(t, dir)
	s := open(t, n, Options{AcceptLoss: true})
	things := NewTable[thing](s, "thing")
	load(t, s)
	left := things.Len()
	if left == 0 || left >= 100 {
		t.Errorf("%d things are left", left)
	}
	if _, err := things.Create(context.Background(), "new", &thing{}); err != nil {
		t.Fatal(err)
	}
	s.Close()

	s = open(t, n, Options{}) // the loss is history
	NewTable[thing](s, "thing")
	load(t, s)
}

func TestWrongDeclarationsFailAtLoad(t *testing.T) {
	n := embedded(t, t.TempDir())
	tests := []struct {
		name    string
		declare func(s *Store)
		want    string
	}{
		{"twice", func(s *Store) { NewTable[thing](s, "a"); NewTable[skill](s, "a") }, `table "a" declared twice`},
		{"a dot", func(s *Store) { NewTable[thing](s, "a.") }, `table name "a."`},
		{"no name", func(s *Store) { NewTable[thing](s, "") }, `table name ""`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, n, Options{})
			test.declare(s)
			if err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Load = %v, want %q", err, test.want)
			}
		})
	}
	if _, err := Open(t.Context(), Conns{State: n.State(), Flow: n.Flow()}, Options{Prefix: "a.b"}); err == nil {
		t.Error("opened with a prefix of two tokens")
	}
}

func TestValuesThatAreTooLargeAreRefused(t *testing.T) {
	s, things := fresh(t)
	large := &thing{Name: strings.Repeat("x", int(s.state.conn.MaxPayload()))}
	_, err := things.Put(context.Background(), "a", large)
	wantCode(t, err, protocol.PayloadTooLarge)
	wantCode(t, s.Atomic(context.Background(), things.PutOp("a", large, 0), things.PutOp("b", &thing{}, 0)), protocol.PayloadTooLarge)
	if things.Len() != 0 {
		t.Errorf("%d things", things.Len())
	}
	large.Name = large.Name[:1<<20]
	if _, err := things.Put(context.Background(), "a", large); err != nil {
		t.Errorf("a value of 1 MiB: %v", err)
	}
}

func TestADeadlineBoundsAWrite(t *testing.T) {
	_, things := fresh(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	_, err := things.Put(ctx, "a", &thing{})
	wantCode(t, err, protocol.StoreUnavailable)
}

// TestAKeyThatChangesMeanwhileIsNotLost counts a registry that was read up to a revision,
// without the key that the next one has replaced: it is read again. It is a loss once the
// registry has no more than was read.
func TestAKeyThatChangesMeanwhileIsNotLost(t *testing.T) {
	n := embedded(t, t.TempDir())
	before := open(t, n, Options{})
	things := NewTable[thing](before, "thing")
	load(t, before)
	for _, key := range []string{"a", "b", "c", "a"} {
		if _, err := things.Put(t.Context(), key, &thing{Name: key}); err != nil {
			t.Fatal(err)
		}
	}
	before.Close()
	s := open(t, n, Options{}) // which follows nothing, and so counts nothing by itself
	NewTable[thing](s, "thing")
	v := s.view
	counts := func(revision uint64, keys int) {
		t.Helper()
		if err := s.storeTally(&tally{Version: tallySchema, Revision: revision, Keys: map[string]int{"thing": keys}}); err != nil {
			t.Fatal(err)
		}
	}
	record, err := encodeRecord(&thing{Name: "any"})
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range []string{"b", "c"} {
		if err := v.tables["thing"].put(key, uint64(i+2), record, 1, true); err != nil {
			t.Fatal(err)
		}
	}
	counts(3, 3)
	if err := v.checkTally(t.Context(), 3); !errors.Is(err, errMoved) {
		t.Errorf("read up to 3: %v", err)
	}
	if err := v.tables["thing"].put("a", 4, record, 1, true); err != nil {
		t.Fatal(err)
	}
	if err := v.checkTally(t.Context(), 4); err != nil {
		t.Errorf("read up to 4: %v", err)
	}
	counts(4, 4)
	var broken *integrityError
	if err := v.checkTally(t.Context(), 4); !errors.As(err, &broken) {
		t.Errorf("a key is lost: %v", err)
	}
}
