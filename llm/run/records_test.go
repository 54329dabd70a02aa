package run

import (
	"testing"

	"github.com/aibridge/aibridge/internal/records/recordstest"
)

// A field that is added to the record of a run survives its going on and its
// end.
func TestUpdatesKeepTheOtherFieldsOfARun(t *testing.T) {
	w := imported(t, script(says("How warm?"), says("How cold?")))
	id := w.start(StartParams{Input: ptr("Make it warm.")})
	w.rest(id)
	changed := []string{"Phase", "Waits", "Code", "Reason", "Last", "Turns", "Tokens", "Cost", "Seq", "Changed", "Node"}
	recordstest.Survives(t, w.opts.Runs, id, func() {
		w.goOn(id, ptr("20"))
		w.rest(id)
	}, append(changed, "-Package", "-Project", "-Workflow", "-Agent")...)
	recordstest.Survives(t, w.opts.Runs, id, func() {
		if _, err := w.Cancel(t.Context(), callOf(alice), CancelParams{Run: id}); err != nil {
			t.Fatal(err)
		}
	}, changed...)
}
