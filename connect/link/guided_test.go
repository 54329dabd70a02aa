package link

import (
	"slices"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/records/recordstest"
)

// TestAGuidedLinkTakesTheRulesGivenLast without connecting.
func TestAGuidedLinkTakesTheRulesGivenLast(t *testing.T) {
	t.Parallel()
	records := recordstest.New[Record]()
	service := func() (*Service, *Link) {
		s := New(Options{Links: []Config{{Name: "site", Guided: true}, {Name: "other"}}, Records: records, Root: "aibridge"})
		return s, s.link("site")
	}
	of := func(topics ...string) (r Rules) {
		for _, name := range topics {
			r.Out = append(r.Out, Rule{Topic: "#", Local: "aibridge/" + name + "/", Remote: name + "/"})
		}
		return r
	}
	s, l := service()
	s.Carry("other", of("a")) // has its rules from the settings
	s.Carry("site", of("a"))
	s.Carry("site", of("a", "b"))
	l.take()
	if got := l.rules(); len(got.Out) != 2 || len(s.link("other").rules().Out) != 0 {
		t.Errorf("the rules are %+v", got)
	}
	if s.Carry("site", of("a", "b")); l.isGiven() {
		t.Error("the same rules are given again")
	}
	l.refusedFilters(true, []string{"no"})
	if s.Carry("site", of("a", "b")); !l.isGiven() {
		t.Error("a refused filter is not subscribed to again")
	}
	w := way{rules: l.rules().Out, outbound: true, reserved: l.reserved()}
	if name, rule := w.carry("aibridge/a/x"); rule == nil || name != "a/x" {
		t.Errorf("a topic of the bridge's own goes to %q", name)
	}

	// After a restart the rules are there before any are given.
	if _, err := records.Put(t.Context(), "site", &Record{Rules: l.kept()}); err != nil {
		t.Fatal(err)
	}
	s, l = service()
	l.remember()
	l.take()
	if got := l.rules(); !slices.Equal(got.Out, of("a", "b").Out) {
		t.Errorf("after a restart the rules are %+v", got)
	}
	s.Carry("site", Rules{})
	if l.remember(); !l.directed(t.Context()) || len(l.rules().Out) != 0 {
		t.Error("a link whose rules were taken away does not unsubscribe")
	}
}

func TestALineThatCarriesAndBreaksIsTriedAgainSoon(t *testing.T) {
	t.Parallel()
	l := newLink(New(Options{Records: recordstest.New[Record]()}), &Config{Name: "house"})
	before := l.carried()
	l.count(true, outcomeLooped)
	l.count(false, outcomeRefused)
	if useful(time.Second, l.carried()-before) {
		t.Error("a connection that carried nothing counts")
	}
	l.count(false, outcomeCarried)
	if !useful(time.Second, l.carried()-before) || !useful(2*lastPause, 0) {
		t.Error("a connection that carried messages, or lasted, does not count")
	}
}
