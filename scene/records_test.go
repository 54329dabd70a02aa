package scene

import (
	"testing"

	"github.com/aibridge/aibridge/internal/records/recordstest"
)

// A field that is added to a record survives every command that changes it,
// unless it is one of those that the command is about.
func TestUpdatesKeepTheOtherFields(t *testing.T) {
	w := newWorld(t)
	w.must(router, "scene.declare", declareRouter)
	recordstest.Survives(t, w.scenes, "default/HOME/home", func() { w.must(lamp, "scene.join", joinLamp) }, "Members", "UpdatedAt", "-Reason", "-SuspendedAt")
	recordstest.Survives(t, w.scenes, "default/HOME/home", func() { w.must(lamp, "scene.leave", `{"scene_type":"HOME","cap_id":"home","skill_id":"lamp"}`) }, "Members", "UpdatedAt", "-Reason", "-SuspendedAt")
}
