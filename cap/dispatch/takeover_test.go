package dispatch

import (
	"context"
	"testing"
	"time"
)

// A dispatch that was stored although its caller was told that the store had not
// confirmed it is carried out by the process that it belongs to, and not only by
// the next one.
func TestADispatchStoredInDoubtIsCarriedOut(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Owner = "me"
		o.Orphaned = func(context.Context) (func(string) bool, error) { return func(string) bool { return false }, nil }
	})
	w.field.add("a")
	id := w.dispatch(Completion{Policy: All}, time.Hour, "a")
	w.expect(id, Complete, "ok")
	stored, _, _ := w.dispatches.Get(string(id))
	mine, theirs := *stored, *stored
	mine.ID, theirs.ID, theirs.Owner = "in-doubt", "of-others", "another"
	for _, d := range []*Dispatch{&mine, &theirs} {
		if _, err := w.dispatches.Create(t.Context(), string(d.ID), d); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.engine.TakeOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.expect("in-doubt", Complete, "ok")
	if w.engine.find("of-others") != nil {
		t.Error("it carries out what is another's")
	}
}
