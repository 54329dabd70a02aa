package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func TestNothingIsReservedOnTheDisk(t *testing.T) {
	n := embedded(t, t.TempDir())
	names := newNames("aibridge", "")
	js, err := jetstream.New(n.Flow())
	if err != nil {
		t.Fatal(err)
	}
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{ // as bridges made it that did reserve
		Name: names.claims, Subjects: []string{names.claimsSubject}, MaxAge: 12 * time.Minute, MaxBytes: 1 << 30, Discard: jetstream.DiscardNew, AllowMsgTTL: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, n, Options{})
	_, journal := s.OpenJournal(t.Context())
	_, blobs := s.OpenBlobs(t.Context())
	_, audit := s.OpenAuditLog(t.Context(), "bridge")
	if err := errors.Join(journal, blobs, audit); err != nil {
		t.Fatal(err)
	}
	load(t, s)
	for name, conn := range map[string]*nats.Conn{"state": n.State(), "flow": n.Flow()} {
		js, err := jetstream.New(conn)
		if err != nil {
			t.Fatal(err)
		}
		info, err := js.AccountInfo(t.Context())
		if err != nil || info.ReservedStore != 0 {
			t.Errorf("%s: %d bytes are reserved, %v", name, info.ReservedStore, err)
		}
	}
}

func TestClaimsHaveRoomAgainWhenOthersExpire(t *testing.T) {
	s := open(t, embedded(t, t.TempDir()), Options{ClaimBytes: 1000})
	load(t, s)
	ctx := context.Background()
	var err error
	for life := time.Second; err == nil && life < eventually.Patience; life *= 2 { // until they do not expire while they are made
		for i := 0; err == nil && i < 100; i++ {
			err = s.Claims().Claim(ctx, claim(i, life))
		}
	}
	wantCode(t, err, protocol.StoreUnavailable)
	eventually.Holds(t, "there is room again", func() bool { return s.Claims().Claim(ctx, claim(100, time.Second)) == nil })
}

func TestWhatIsThereChangesWhileNothingNewIsStored(t *testing.T) {
	var full error
	s := open(t, embedded(t, t.TempDir()), Options{Full: func() error { return full }})
	things, vital := NewTable[thing](s, "thing"), NewTable[thing](s, "vital").Essential()
	load(t, s)
	ctx := t.Context()
	put := func(table *Table[thing], key string) error {
		_, err := table.Put(ctx, key, &thing{Name: key})
		return err
	}
	if err := errors.Join(put(things, "a"), put(things, "b")); err != nil {
		t.Fatal(err)
	}
	full = protocol.Errorf(protocol.NoSpace, "full")
	_, err := things.Create(ctx, "new", &thing{})
	wantCode(t, err, protocol.NoSpace)
	wantCode(t, put(things, "new"), protocol.NoSpace)
	wantCode(t, s.Atomic(ctx, things.PutOp("a", &thing{}, 0), things.CreateOp("new", &thing{})), protocol.NoSpace)
	if err := errors.Join(put(things, "a"), put(vital, "new"), s.Atomic(ctx, things.PutOp("a", &thing{}, 0), things.DeleteOp("b", 0))); err != nil {
		t.Error(err)
	}
	_, revision, _ := things.Get("a")
	if _, err := things.Update(ctx, "a", &thing{}, revision); err != nil {
		t.Error(err)
	}
	if err := things.Delete(ctx, "a", 0); err != nil {
		t.Error(err)
	}
	wantCode(t, put(things, "a"), protocol.NoSpace)
	full = nil
	if err := put(things, "new"); err != nil {
		t.Error(err)
	}
}
