package task

import (
	"context"
	"testing"

	"github.com/aibridge/aibridge/internal/records/recordstest"
)

// A field that is added to the record of a task survives the end of the
// bridge that ran it.
func TestUpdatesKeepTheOtherFields(t *testing.T) {
	f := newFixture()
	defer f.Close(context.Background())
	f.keep(t, &Task{ID: "left", Command: "skill.invoke", State: Running, Space: "default", Principal: "alice"})
	recordstest.Survives(t, f.table, "left", func() {
		if err := f.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
	}, "State", "Ended", "Error", "-Result", "-Dialogue")
}
