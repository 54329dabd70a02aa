package task

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// groups is a source of one task.
type groups struct{ task Task }

func (g *groups) Get(id protocol.TaskID) (*Task, bool) { return &g.task, id == g.task.ID }

func (g *groups) All() iter.Seq[*Task] { return func(yield func(*Task) bool) { yield(&g.task) } }

func (g *groups) Counts(protocol.TaskID) map[string]int { return map[string]int{"ok": 1} }

func (g *groups) Cancel(_ context.Context, id protocol.TaskID, reason string) error {
	if g.task.State != Running {
		return protocol.Errorf(protocol.InvalidState, "it has ended")
	}
	g.task.State, g.task.Error = Cancelled, &Failure{Code: protocol.Cancelled, Message: reason}
	return nil
}

func TestTasksOfGroupsAreShownAndCancelledLikeOthers(t *testing.T) {
	f := newFixture()
	f.Others = []Source{&groups{Task{ID: "g", Command: "group.dispatch", State: Running, Principal: "alice", Space: protocol.DefaultSpace,
		Started: time.Now(), Group: &Group{Cap: "home", Members: []Member{{Skill: "lamp", State: "ok"}}}}}}
	if got := f.get(t, "g"); got.Group == nil || got.Group.Members[0].State != "ok" {
		t.Errorf("got %+v", got)
	}
	list, err := f.List(t.Context(), callBy(alice), ListParams{State: Running})
	if err != nil || len(list.Tasks) != 1 {
		t.Errorf("listed %+v, %v", list, err)
	}
	if counts := list.Tasks[0].Group.Counts; counts["ok"] != 1 {
		t.Errorf("listed with %v members in each state", counts)
	}
	for _, other := range []ListParams{{Cap: "office"}, {Group: "upstairs"}} {
		if list, err := f.List(t.Context(), callBy(alice), other); err != nil || len(list.Tasks) != 0 {
			t.Errorf("%+v lists %+v, %v", other, list, err)
		}
	}
	bob := callBy(&protocol.Principal{ID: "bob", Space: protocol.DefaultSpace})
	if _, err := f.Get(t.Context(), bob, GetParams{TaskID: "g"}); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("bob sees it: %v", err)
	}
	if _, err := f.Cancel(t.Context(), bob, CancelParams{TaskID: "g"}); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("bob cancels it: %v", err)
	}
	got, err := f.Cancel(t.Context(), callBy(alice), CancelParams{TaskID: "g", Reason: "enough"})
	if err != nil || got.State != Cancelled || got.Error.Message != "enough" {
		t.Errorf("cancelled: %+v, %v", got, err)
	}
	if _, err := f.Cancel(t.Context(), callBy(alice), CancelParams{TaskID: "g"}); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("cancelled twice: %v", err)
	}
}
