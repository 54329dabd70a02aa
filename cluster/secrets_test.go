package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

// with makes a node one that has secrets, by file. The key of seals rotates.
func with(keys map[string]string) func(*Options) {
	return func(o *Options) { o.Working, o.Keys, o.Rotating = All, keys, []string{"seal.key"} }
}

// serves has a node serve with secrets.
func serves(m *Membership, keys map[string]string) {
	m.Tell(func(r *Record) { r.State, r.Keys = Serving, keys })
}

// isForeign waits for a node that does not start because of its secrets.
func isForeign(t *testing.T, j *joining, by string, files ...string) {
	t.Helper()
	err := <-j.err
	foreign := (*Foreign)(nil)
	if !errors.As(err, &foreign) || !slices.Equal(foreign.Files, files) || foreign.By != by || protocol.CodeOf(err) != protocol.StoreUnavailable || !strings.HasPrefix(err.Error(), strings.Join(files, ", ")+" in the data folder differ") {
		t.Errorf("it ends with %v", err)
	}
}

// TestWhoStartsAloneHasTheSecretsOfTheState ends a cluster, and has bridges begin again
// on its state: with other secrets, with those of a version, and with all.
func TestWhoStartsAloneHasTheSecretsOfTheState(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		leave := func(m *Membership) {
			t.Helper()
			if err := m.Leave(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ours := map[string]string{"pepper": "p", "seal.key": "2"}
		a := stream.join(t, "a", with(map[string]string{"pepper": "p"})).works(t) // it has to make the other one
		b := stream.join(t, "b", with(ours)).works(t)
		serves(a, map[string]string{"pepper": "p", "seal.key": "1"})
		time.Sleep(time.Second)
		for range 2 { // as versions come and go
			serves(a, map[string]string{"pepper": "p", "seal.key": "2 1"})
			serves(b, map[string]string{"pepper": "p", "seal.key": "2"})
			time.Sleep(time.Second)
		}
		leave(a)
		leave(b)
		time.Sleep(24 * time.Hour)

		isForeign(t, stream.join(t, "c", with(map[string]string{"pepper": "x", "seal.key": "9"})), "a", "pepper", "seal.key")
		isForeign(t, stream.join(t, "c", with(map[string]string{"pepper": "p"})), "a", "seal.key")
		isForeign(t, stream.join(t, "c", with(nil)), "a", "pepper", "seal.key")
		for _, version := range []string{"1", "2"} {
			leave(stream.join(t, "c", with(map[string]string{"pepper": "p", "seal.key": version})).works(t))
		}
		c := stream.join(t, "c", with(ours)).works(t)
		serves(c, ours)
		time.Sleep(time.Second)
		leave(c)
		isForeign(t, stream.join(t, "a", with(map[string]string{"pepper": "p", "seal.key": "1"})), "c", "seal.key") // it was retired
	})
}

// TestSecretsThatWereRotatedWhileOneWorksAreThoseOfTheState lets all bridges work, then
// one at a time, which rotates a key, and all again.
func TestSecretsThatWereRotatedWhileOneWorksAreThoseOfTheState(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		first, second := map[string]string{"seal.key": "1"}, map[string]string{"seal.key": "2"}
		for _, life := range []struct {
			working Working
			has     map[string]string
			becomes map[string]string
		}{{All, first, first}, {One, first, second}, {All, second, second}} {
			m := stream.join(t, "a", with(life.has), func(o *Options) { o.Working = life.working }).works(t)
			serves(m, life.becomes)
			time.Sleep(time.Second)
			if err := m.Leave(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		isForeign(t, stream.join(t, "a", with(first)), "a", "seal.key")
	})
}

// TestTheStateKnowsAVersionBeforeItComesIntoUse looks for the version of a key in the
// record of secrets, once the other bridges hear of it.
func TestTheStateKnowsAVersionBeforeItComesIntoUse(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		keys := map[string]string{"seal.key": "1"}
		a := stream.join(t, "a", with(keys)).works(t)
		serves(a, keys)
		time.Sleep(time.Second)
		serves(a, map[string]string{"seal.key": "2 1"})
		time.Sleep(time.Second)
		told := uint64(0)
		stream.mu.Lock()
		for _, m := range stream.messages {
			if m.id == "a" && told == 0 && strings.Contains(string(m.data), "2 1") {
				told = m.revision
			}
		}
		stream.mu.Unlock()
		if kept, r := stream.record(secretsID); told == 0 || kept > told || r.Keys["seal.key"] != "2 1" {
			t.Errorf("%v is recorded as %d, and told as %d", r.Keys, kept, told)
		}
	})
}

// TestNewSecretsAreTakenIfThatIsMeant has a bridge begin with other secrets than the
// state has, on purpose; from then on they are those of the state.
func TestNewSecretsAreTakenIfThatIsMeant(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		lost, fresh := map[string]string{"pepper": "lost"}, map[string]string{"pepper": "new"}
		for _, begin := range []func(*Options){with(lost), func(o *Options) { with(fresh)(o); o.NewSecrets = true }, with(fresh)} {
			m := stream.join(t, "a", begin).works(t)
			serves(m, m.o.Keys)
			time.Sleep(time.Second)
			if err := m.Leave(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		isForeign(t, stream.join(t, "a", with(lost)), "a", "pepper")
	})
}

// TestTheRecordOfSecretsIsNoBridge looks for it among the bridges.
func TestTheRecordOfSecretsIsNoBridge(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		keys := map[string]string{"pepper": "p"}
		a := stream.join(t, "a", with(keys)).works(t)
		serves(a, keys)
		b := stream.join(t, "b", with(keys)).works(t)
		time.Sleep(time.Second)
		if living(b) != "a b" {
			t.Errorf("members are %q", living(b))
		}
		if known, removed, err := a.Known(t.Context(), secretsID); known || removed || err != nil {
			t.Errorf("it is known %t, removed %t, %v", known, removed, err)
		}
		if err := a.Remove(t.Context(), secretsID, "key:ops"); protocol.CodeOf(err) != protocol.NotFound {
			t.Errorf("it is removed: %v", err)
		}
	})
}
