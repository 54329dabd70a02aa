package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/protocol"
)

func openAudit(t *testing.T, s *Store, bridge string) *AuditLog {
	t.Helper()
	a, err := s.OpenAuditLog(t.Context(), bridge)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// groups are the groups that a log reads as.
func groups(t *testing.T, a *AuditLog) (text string) {
	t.Helper()
	err := a.Read(t.Context(), func(position uint64, group []byte) error {
		text += fmt.Sprintf("%d:%s ", position, group)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAnAuditLogKeepsItsGroupsInOrder(t *testing.T) {
	dir := t.TempDir()
	n := embedded(t, dir)
	s := open(t, n, Options{})
	a := openAudit(t, s, "bridge one/two")
	if b, err := a.Bounds(t.Context()); err != nil || b.Last >= b.First && b.Last != 0 {
		t.Errorf("bounds of nothing are %+v, %v", b, err)
	}
	for _, g := range []string{"a", "b", "c"} {
		if err := a.Append(t.Context(), []byte(g)); err != nil {
			t.Fatal(err)
		}
	}
	other := openAudit(t, s, "two")
	if err := other.Append(t.Context(), []byte("x")); err != nil {
		t.Fatal(err)
	}
	s.Close()
	n.Close()

	s = open(t, embedded(t, dir), Options{})
	a = openAudit(t, s, "bridge one/two")
	if err := a.Append(t.Context(), bytes.Repeat([]byte("d"), 1)); err != nil {
		t.Fatal(err)
	}
	if got := groups(t, a); got != "1:a 2:b 3:c 4:d " {
		t.Errorf("reads %s", got)
	}
	if err := a.Trim(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	b, err := a.Bounds(t.Context())
	if err != nil || b.First != 3 || b.Last != 4 || b.Bytes == 0 {
		t.Errorf("bounds %+v, %v", b, err)
	}
	for position, want := range map[uint64]string{1: "", 3: "c", 4: "d", 5: ""} {
		got, err := a.Get(t.Context(), position)
		if err != nil || string(got) != want {
			t.Errorf("at %d is %q, %v", position, got, err)
		}
	}
	if got := groups(t, a); got != "3:c 4:d " {
		t.Errorf("reads %s", got)
	}
}

func TestNATSDeletesNothingFromAnAuditLog(t *testing.T) {
	s := open(t, embedded(t, t.TempDir()), Options{})
	a := openAudit(t, s, "b")
	if err := a.Append(t.Context(), []byte("a")); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(s.state.conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "aibridge-audit-b")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), 1); err == nil {
		t.Error("deleted")
	}
}

func TestTwoBridgesOnOneAuditLogAreFoundOut(t *testing.T) {
	s := open(t, embedded(t, t.TempDir()), Options{})
	one, two := openAudit(t, s, "b"), openAudit(t, s, "b")
	if err := one.Append(t.Context(), []byte("a")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		wantCode(t, two.Append(t.Context(), []byte("b")), protocol.StoreUnavailable)
	}
	if err := one.Append(t.Context(), []byte("c")); err != nil {
		t.Error(err)
	}
}

func TestReadingAnAuditLogStopsWhenAsked(t *testing.T) {
	s := open(t, embedded(t, t.TempDir()), Options{})
	a := openAudit(t, s, "b")
	for range 3 {
		if err := a.Append(t.Context(), []byte("a")); err != nil {
			t.Fatal(err)
		}
	}
	enough := errors.New("enough")
	if err := a.Read(context.Background(), func(uint64, []byte) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("read ended with %v", err)
	}
}
