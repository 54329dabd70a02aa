package pki

import (
	"context"
	"crypto"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

func (w *world) sets() string {
	var all []string
	for _, set := range w.Sets() {
		state := "open"
		switch {
		case !set.Retired.IsZero():
			state = "retired"
		case set.Issues:
			state = "issues"
		case set.Staged:
			state = "staged"
		}
		all = append(all, fmt.Sprint(set.Number, " ", state, " ", set.Valid))
	}
	return strings.Join(all, ", ")
}

// TestAuthoritiesRotateUnderWhatTheyHaveIssued rotates them at one of two bridges while
// holders of certificates connect to both.
func TestAuthoritiesRotateUnderWhatTheyHaveIssued(t *testing.T) {
	w := newWorld(t)
	other := w.another()
	old, lost := w.hold(), w.hold()
	at, there := w.listen(), other.listen()
	connects := func(h *holder, what string) {
		t.Helper()
		for _, listener := range []*listener{at, there} {
			if who, err := w.dial(listener, &h.tls); err != nil {
				t.Errorf("%s is not let in: %q, %v", what, who, err)
			}
		}
	}
	number, err := w.StageSet(t.Context())
	if err != nil || number != 2 || other.sets() != "2 staged 0, 1 issues 2" {
		t.Fatalf("staged %d, %v: %s", number, err, other.sets())
	}
	if again, err := other.StageSet(t.Context()); again != 2 || err != nil {
		t.Errorf("staged again: %d, %v", again, err)
	}
	before := other.hold()
	if err := other.ActivateSet(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	fresh := w.hold()
	if w.sets() != "2 issues 1, 1 open 3" {
		t.Errorf("rotated: %s", w.sets())
	}
	at, there = w.listen(), other.listen()
	for h, what := range map[*holder]string{old: "one of before", before: "one of while it was staged", fresh: "one of after"} {
		connects(h, what)
	}
	must[RevokeResult](w, root, "cert.revoke", object{"serial": lost.serial, "reason": "lost"})
	for name, want := range map[string]int{"operator": 1, "operator.2": 0} {
		if list := listOf(w, Authority(name)); len(list.RevokedCertificateEntries) != want {
			t.Errorf("list %s has %d", name, len(list.RevokedCertificateEntries))
		}
	}
	if answer := get(w, "GET", "/pki/operator.3.crl", ""); answer.Code != 404 {
		t.Errorf("a list of authorities that are not there: %d", answer.Code)
	}
	if err := w.RetireSet(t.Context(), 1); protocol.CodeOf(err) != protocol.InvalidState || !strings.Contains(err.Error(), "2 certificates") {
		t.Errorf("retired while its certificates count: %v", err)
	}
	for _, h := range []*holder{old, before} {
		must[RevokeResult](w, root, "cert.revoke", object{"serial": h.serial, "reason": "superseded"})
	}
	for range 2 {
		if err := other.RetireSet(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	third := w.another()
	if third.sets() != "2 issues 1, 1 retired 0" || issues(third) != nil {
		t.Errorf("a bridge that starts sees %s", third.sets())
	}
	connects(fresh, "one of after")
	if err := third.Valid(old.serial); protocol.CodeOf(err) != protocol.CertificateRevoked {
		t.Errorf("a certificate of the retired: %v", err)
	}
	if number, err := third.StageSet(t.Context()); number != 3 || err != nil {
		t.Errorf("rotated again: %d, %v", number, err)
	}
	if err := w.ActivateSet(t.Context(), 7); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("activated what is not there: %v", err)
	}
}

// Whenever the bridge that rotates dies, what was issued counts, certificates are
// issued, and the next rotation goes on.
func TestARotationOfAuthoritiesThatDiesIsGoneOnWith(t *testing.T) {
	for after := range 2 {
		for dies := 1; ; dies++ {
			w := newWorld(t)
			old := w.hold()
			life := &recordstest.Process{Dies: dies, After: after == 1}
			work := func(b *world) error {
				number, err := b.StageSet(t.Context())
				if err == nil {
					err = b.ActivateSet(t.Context(), number)
				}
				return err
			}
			err := work(w.another(func(o *Options) {
				o.Authorities = recordstest.Mortal[Hierarchy]{Memory: w.state.authorities, Name: "authorities", Process: life}
			}))
			dead, at := life.Dead()
			if !dead {
				if err != nil || dies != 3 {
					t.Fatalf("%d steps, %v", dies-1, err)
				}
				break
			}
			for _, b := range []*world{w, w.another()} {
				if err := b.Valid(old.serial); err != nil {
					t.Errorf("killed at %s (%d): what was issued: %v", at, dies, err)
				}
				if err := issues(b); err != nil {
					t.Errorf("killed at %s (%d): issuing: %v", at, dies, err)
				}
			}
			if err := work(w.another()); err != nil || !strings.Contains(w.sets(), "issues") {
				t.Errorf("killed at %s (%d): then %v, %s", at, dies, err, w.sets())
			}
		}
	}
}

func TestAuthoritiesWhoseKeysAreElsewhereAreNotRotatedHere(t *testing.T) {
	w := newWorld(t)
	sealed := w.another(func(o *Options) { o.Dir = t.TempDir() })
	if _, err := sealed.StageSet(t.Context()); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("without the root's key: %v", err)
	}
	held := w.another(func(o *Options) { o.Signers = map[string]crypto.Signer{"operator": w.cas().granting(Operator).signer} })
	if _, err := held.StageSet(t.Context()); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("with keys held elsewhere: %v", err)
	}
}

// A bridge of a cluster that has just formed may be refused for authorities that it does
// not see yet.
func TestAuthoritiesOfAQuickerBridgeAreWaitedFor(t *testing.T) {
	quicker := newWorld(t)
	made, _, _ := quicker.state.authorities.Get(hierarchyKey)
	w := newWorld(t, func(o *Options) {
		o.Dir, o.Authorities = quicker.opts.Dir, &lateTable{Memory: recordstest.New[Hierarchy](), late: made}
	})
	if err := issues(w); err != nil || string(w.Root()) != string(quicker.Root()) {
		t.Errorf("it has authorities of its own: %v", err)
	}
}

// A lateTable refuses the first record, and shows the one for which it does at the
// second look.
type lateTable struct {
	*recordstest.Memory[Hierarchy]
	late  *Hierarchy
	looks int
}

func (l *lateTable) Create(context.Context, string, *Hierarchy) (uint64, error) {
	return 0, protocol.Errorf(protocol.AlreadyExists, "it exists")
}

func (l *lateTable) All() iter.Seq2[string, *Hierarchy] {
	if l.looks++; l.looks == 2 {
		_, _ = l.Memory.Create(context.Background(), hierarchyKey, l.late)
	}
	return l.Memory.All()
}
