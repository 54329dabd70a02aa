package task

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// talk begins a task by a message.
func (f *fixture) talk(t *testing.T, do func(context.Context) (json.RawMessage, error)) protocol.TaskID {
	t.Helper()
	id, err := f.Converse(t.Context(), callBy(alice), Dialogue{Context: "c-1", Message: "m-1", Notes: json.RawMessage(`"noted"`)}, do)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (f *fixture) standingOf(t *testing.T, id protocol.TaskID) *Standing {
	t.Helper()
	s, err := f.Standing(alice, id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestATaskOfAMessageGoesOnAsAnother(t *testing.T) {
	t.Parallel()
	next := &Task{ID: "next", Command: "tool.call", State: Waiting, Waits: &Waits{Approval: "a-1", Tool: "door.open"}}
	runs := func(id protocol.TaskID) (*Task, bool) { return next, next != nil && id == "next" }
	f := newFixture(func(o *Options) { o.Runs = runs })
	id := f.talk(t, func(context.Context) (json.RawMessage, error) { return nil, &HandOver{To: "next"} })
	<-f.Ended(id)
	if s := f.standingOf(t, id); s.State != Waiting || s.Work != "tool.call" || s.Waits == nil || s.ID != id || s.Dialogue.Successor != "next" {
		t.Fatalf("it is %+v", s)
	}

	// A later process finds it as it was: it has not failed with its bridge.
	later := newFixture(func(o *Options) { o.Tasks, o.Runs = f.table, runs })
	if err := later.FailOrphans(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := time.Now().UTC()
	next = &Task{ID: "next", Command: "tool.call", State: Succeeded, Result: json.RawMessage(`1`), Ended: &ended}
	if s := later.standingOf(t, id); s.State != Succeeded || string(s.Result) != "1" || !s.Over() {
		t.Errorf("at the end it is %+v", s)
	}
	shown, err := later.Get(t.Context(), callBy(alice), GetParams{TaskID: id})
	if err != nil || shown.State != Succeeded || shown.Dialogue.Notes != nil {
		t.Errorf("task.get shows %+v, %v", shown, err)
	}
	if _, err := later.Cancel(t.Context(), callBy(alice), CancelParams{TaskID: id}); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("cancel: %v", err)
	}
	next = nil
	if s := later.standingOf(t, id); s.State != Failed || s.Error.Code != protocol.OutcomeUnknown {
		t.Errorf("when nobody knows the other any more it is %+v", s)
	}
}

func TestWhatIsNotedOfATaskIsKeptAtItsEnd(t *testing.T) {
	t.Parallel()
	f := newFixture()
	goOn := make(chan struct{})
	id := f.talk(t, func(context.Context) (json.RawMessage, error) { <-goOn; return json.RawMessage(`{}`), nil })
	note := func(text string) {
		t.Helper()
		if err := f.Note(t.Context(), id, func(json.RawMessage) (json.RawMessage, error) { return json.RawMessage(text), nil }); err != nil {
			t.Fatal(err)
		}
	}
	note(`"while it runs"`)
	ended := f.Ended(id)
	close(goOn)
	<-ended
	if s := f.standingOf(t, id); s.State != Succeeded || string(s.Dialogue.Notes) != `"while it runs"` {
		t.Errorf("it is %+v, noted %s", s, s.Dialogue.Notes)
	}
	note(`"later"`)
	if s := f.standingOf(t, id); string(s.Dialogue.Notes) != `"later"` {
		t.Errorf("noted %s", s.Dialogue.Notes)
	}
}

func TestADialogueIsItsPartysAlone(t *testing.T) {
	t.Parallel()
	f := newFixture()
	id := f.talk(t, func(context.Context) (json.RawMessage, error) { return json.RawMessage(`{}`), nil })
	<-f.Ended(id)
	root := &protocol.Principal{Kind: protocol.KindOperator, ID: "root", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleAdministrator}}
	for _, who := range []*protocol.Principal{root, {Kind: protocol.KindOperator, ID: "alice", Space: "elsewhere"}, {Kind: protocol.KindAgent, ID: "alice", Space: protocol.DefaultSpace}} {
		if s, err := f.Standing(who, id); protocol.CodeOf(err) != protocol.NotFound {
			t.Errorf("%+v sees %+v, %v", who, s, err)
		}
		for s := range f.Standings(who) {
			t.Errorf("%+v lists %+v", who, s)
		}
	}
	plain := f.start(t, func(context.Context, *commands.Call) (json.RawMessage, error) { return nil, nil })
	if s, err := f.Standing(alice, plain); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("a task of no message: %+v, %v", s, err)
	}
}
