package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/internal/telemetry/semconv"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

var alice = &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: protocol.DefaultSpace}

type fixture struct {
	*Service
	table  *recordstest.Memory[Task]
	mu     sync.Mutex
	events []string
}

func newFixture(change ...func(*Options)) *fixture {
	f := &fixture{table: recordstest.New[Task]()}
	o := Options{Tasks: f.table, Publish: func(_ protocol.Recipients, _ protocol.TaskID, e *protocol.Event) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.events = append(f.events, fmt.Sprintf("%d %s", e.Seq, e.Name))
	}}
	for _, c := range change {
		c(&o)
	}
	f.Service = New(o)
	return f
}

// keep stores a task as an earlier process did.
func (f *fixture) keep(t *testing.T, task *Task) {
	t.Helper()
	if _, err := f.table.Put(t.Context(), string(task.ID), task); err != nil {
		t.Fatal(err)
	}
}

func callBy(who *protocol.Principal) *commands.Call {
	return &commands.Call{Principal: who, Command: "skill.invoke", Deadline: time.Now().Add(time.Minute)}
}

func (f *fixture) start(t *testing.T, do func(context.Context, *commands.Call) (json.RawMessage, error)) protocol.TaskID {
	t.Helper()
	call := callBy(alice)
	id, err := f.Start(t.Context(), call, func(ctx context.Context) (json.RawMessage, error) { return do(ctx, call) })
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (f *fixture) get(t *testing.T, id protocol.TaskID) Task {
	t.Helper()
	task, err := f.Get(t.Context(), callBy(alice), GetParams{TaskID: id})
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func TestATaskEndsAsItsCommandDoes(t *testing.T) {
	for name, test := range map[string]struct {
		do    func(context.Context, *commands.Call) (json.RawMessage, error)
		state State
		code  protocol.Code
	}{
		"success": {func(context.Context, *commands.Call) (json.RawMessage, error) { return json.RawMessage(`{"a":1}`), nil }, Succeeded, ""},
		"failure": {func(context.Context, *commands.Call) (json.RawMessage, error) {
			return nil, protocol.Errorf(protocol.AgentOffline, "gone")
		}, Failed, protocol.AgentOffline},
		"a failure without a code": {func(context.Context, *commands.Call) (json.RawMessage, error) {
			return nil, errors.New("secret path")
		}, Failed, protocol.Internal},
		"its deadline": {func(ctx context.Context, _ *commands.Call) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, Failed, protocol.TimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				f := newFixture()
				id := f.start(t, test.do)
				time.Sleep(2 * time.Minute) // in the bubble's time
				task := f.get(t, id)
				if task.State != test.state || task.Ended == nil {
					t.Errorf("ended as %+v", task)
				}
				if test.code != "" && (task.Error == nil || task.Error.Code != test.code || task.Error.Message == "secret path") {
					t.Errorf("error %+v, want %s", task.Error, test.code)
				}
				if test.code == "" && string(task.Result) != `{"a":1}` {
					t.Errorf("result %s", task.Result)
				}
				if err := f.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestATaskIsDurableBeforeItsIDIsTold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFixture()
		id := f.start(t, func(ctx context.Context, _ *commands.Call) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if stored, _, ok := f.table.Get(string(id)); !ok || stored.State != Running {
			t.Errorf("stored: %+v", stored)
		}
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if stored, _, _ := f.table.Get(string(id)); stored.State != Failed || stored.Error.Code != protocol.OutcomeUnknown {
			t.Errorf("after the stop: %+v", stored)
		}
	})
}

func TestCancelEndsATaskWithItsReason(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFixture()
		defer f.Close(context.Background())
		id := f.start(t, func(ctx context.Context, _ *commands.Call) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		task, err := f.Cancel(t.Context(), callBy(alice), CancelParams{TaskID: id, Reason: "enough"})
		if err != nil || task.State != Cancelled || task.Error.Message != "enough" {
			t.Errorf("cancelled: %+v, %v", task, err)
		}
		if _, err := f.Cancel(t.Context(), callBy(alice), CancelParams{TaskID: id}); protocol.CodeOf(err) != protocol.InvalidState {
			t.Errorf("a second time: %v", err)
		}
	})
}

// TestEventsHaveTheTraceOfTheirCall starts a task for a call of a trace, and one for a
// call without.
func TestEventsHaveTheTraceOfTheirCall(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, want := range []string{parent, ""} {
		told := make(chan string, 8)
		f := newFixture(func(o *Options) {
			o.Publish = func(_ protocol.Recipients, _ protocol.TaskID, e *protocol.Event) { told <- e.Traceparent }
		})
		call := callBy(alice)
		id, err := f.Start(semconv.Continue(t.Context(), want), call, func(context.Context) (json.RawMessage, error) {
			call.Emit("task.progress", map[string]int{"percent": 1})
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		<-f.Ended(id)
		if got := <-told; got != want {
			t.Errorf("an event is of the trace %q, want %q", got, want)
		}
		f.Close(t.Context())
	}
}

func TestProgressIsShownAndToldInOrder(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFixture()
		proceed := make(chan struct{})
		id := f.start(t, func(_ context.Context, call *commands.Call) (json.RawMessage, error) {
			call.Emit("task.progress", map[string]int{"percent": 10})
			call.Emit("task.progress", map[string]int{"percent": 20})
			<-proceed
			return json.RawMessage(`{}`), nil
		})
		synctest.Wait()
		if task := f.get(t, id); task.Progress == nil || task.Progress.Seq != 2 || string(task.Progress.Data) != `{"percent":20}` {
			t.Errorf("progress %+v", task.Progress)
		}
		close(proceed)
		synctest.Wait()
		if task := f.get(t, id); task.Progress == nil || task.Progress.Seq != 2 {
			t.Errorf("an ended task shows progress %+v", task.Progress)
		}
		if got := fmt.Sprint(f.events); got != "[1 task.progress 2 task.progress 3 task.succeeded]" {
			t.Errorf("events %s", got)
		}
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestOthersTasksDoNotExist(t *testing.T) {
	f := newFixture()
	defer f.Close(context.Background())
	id := f.start(t, func(context.Context, *commands.Call) (json.RawMessage, error) { return json.RawMessage(`{}`), nil })
	for name, who := range map[string]*protocol.Principal{
		"another principal":     {ID: "mallory", Space: protocol.DefaultSpace},
		"a namesake in a space": {ID: "alice", Space: "elsewhere"},
		"a namesake of a kind":  {Kind: protocol.KindAgent, ID: "alice", Space: protocol.DefaultSpace},
	} {
		if _, err := f.Get(t.Context(), callBy(who), GetParams{TaskID: id}); protocol.CodeOf(err) != protocol.NotFound {
			t.Errorf("%s gets it: %v", name, err)
		}
		if _, err := f.Cancel(t.Context(), callBy(who), CancelParams{TaskID: id}); protocol.CodeOf(err) != protocol.NotFound {
			t.Errorf("%s cancels it: %v", name, err)
		}
		if page, _ := f.List(t.Context(), callBy(who), ListParams{}); page.Total != 0 {
			t.Errorf("%s lists it", name)
		}
	}
	boss := &protocol.Principal{ID: "root", Roles: []string{protocol.RoleAdministrator}}
	if _, err := f.Get(t.Context(), callBy(boss), GetParams{TaskID: id}); err != nil {
		t.Errorf("an administrator: %v", err)
	}
}

func TestTasksLeftRunningByAnEarlierProcessAreFailed(t *testing.T) {
	f := newFixture()
	f.keep(t, &Task{ID: "a", State: Running, Principal: "alice", Space: protocol.DefaultSpace})
	f.keep(t, &Task{ID: "c", State: Pending, Principal: "alice", Space: protocol.DefaultSpace})
	f.keep(t, &Task{ID: "b", State: Succeeded, Principal: "alice", Space: protocol.DefaultSpace, Result: json.RawMessage(`1`)})
	if err := f.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer f.Close(context.Background())
	if a := f.get(t, "a"); a.State != Failed || a.Error.Code != protocol.OutcomeUnknown {
		t.Errorf("a: %+v", a)
	}
	if c := f.get(t, "c"); c.State != Failed || c.Error.Code != protocol.ShuttingDown {
		t.Errorf("c: %+v", c)
	}
	if b := f.get(t, "b"); b.State != Succeeded {
		t.Errorf("b: %+v", b)
	}
}

func TestListsOfTasksAreFilteredAndSorted(t *testing.T) {
	f := newFixture()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	later := at.Add(time.Minute)
	for _, task := range []*Task{
		{ID: "t1", State: Succeeded, Command: "llm.query", Ended: &later},
		{ID: "t2", State: Failed, Command: "skill.invoke", Ended: &at},
		{ID: "t3", State: Pending, Command: "skill.invoke"},
		{ID: "t4", State: Complete, Command: "group.dispatch", Ended: &later, Group: &Group{Cap: "climate", Group: "Hall-B", Capability: "set"}},
	} {
		task.Principal, task.Space = "alice", protocol.DefaultSpace
		f.keep(t, task)
	}
	for name, tt := range map[string]struct {
		params ListParams
		want   string
	}{
		"all, the latest first":   {ListParams{}, "t4 t3 t2 t1"},
		"of one command":          {ListParams{Command: "skill.invoke"}, "t3 t2"},
		"not ended":               {ListParams{Running: true}, "t3"},
		"with a text":             {ListParams{Find: "hall-b"}, "t4"},
		"of somebody else":        {ListParams{Principal: "bob"}, ""},
		"by end":                  {ListParams{Sort: "-ended_at"}, "t4 t1 t2 t3"},
		"by command, upwards":     {ListParams{Sort: "command"}, "t4 t1 t2 t3"},
		"a second page of a sort": {ListParams{Sort: "-ended_at", Page: listing.Page{Limit: 2, Cursor: second(t, f)}}, "t2 t3"},
	} {
		page, err := f.List(t.Context(), callBy(alice), tt.params)
		var ids []string
		for _, task := range page.Tasks {
			ids = append(ids, string(task.ID))
		}
		if got := strings.Join(ids, " "); err != nil || got != tt.want {
			t.Errorf("%s: %q, want %q; %v", name, got, tt.want, err)
		}
	}
}

// second is the cursor of the second page of two, by end.
func second(t *testing.T, f *fixture) string {
	t.Helper()
	first, err := f.List(t.Context(), callBy(alice), ListParams{Sort: "-ended_at", Page: listing.Page{Limit: 2}})
	if err != nil {
		t.Fatal(err)
	}
	return first.NextCursor
}

func TestListPagesThroughAllTasksLatestFirst(t *testing.T) {
	f := newFixture()
	for i := range 25 {
		id := fmt.Sprintf("t%02d", i)
		f.keep(t, &Task{ID: protocol.TaskID(id), State: Succeeded, Principal: "alice", Space: protocol.DefaultSpace, Result: json.RawMessage(`1`)})
	}
	var seen []string
	params := ListParams{Page: listing.Page{Limit: 10}}
	for {
		page, err := f.List(t.Context(), callBy(alice), params)
		if err != nil || page.Total != 25 {
			t.Fatalf("%+v, %v", page, err)
		}
		for _, task := range page.Tasks {
			seen = append(seen, string(task.ID))
			if task.Result != nil {
				t.Error("a list shows results")
			}
		}
		if params.Cursor = page.NextCursor; params.Cursor == "" {
			break
		}
	}
	if len(seen) != 25 || seen[0] != "t24" || seen[24] != "t00" {
		t.Errorf("saw %v", seen)
	}
}

func TestOldTasksAreForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFixture()
		if err := f.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		id := f.start(t, func(context.Context, *commands.Call) (json.RawMessage, error) { return json.RawMessage(`{}`), nil })
		time.Sleep(keepFor - time.Minute) // in the bubble's time
		f.get(t, id)
		time.Sleep(2*time.Minute + sweepPace)
		if f.table.Len() != 0 {
			t.Error("still there")
		}
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestTasksWaitForTheirTurn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFixture(func(o *Options) { o.MaxRunning = 1 })
		proceed := make(chan struct{})
		work := func(ctx context.Context, _ *commands.Call) (json.RawMessage, error) {
			select {
			case <-proceed:
				return json.RawMessage(`{}`), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		first, second, third, fourth := f.start(t, work), f.start(t, work), f.start(t, work), f.start(t, work)
		synctest.Wait()
		if a, b := f.get(t, first), f.get(t, second); a.State != Running || b.State != Pending {
			t.Errorf("the first is %s, the second %s", a.State, b.State)
		}
		if _, err := f.Cancel(t.Context(), callBy(alice), CancelParams{TaskID: second}); err != nil {
			t.Errorf("cancel one that waits: %v", err)
		}
		proceed <- struct{}{}
		synctest.Wait()
		stored, _, _ := f.table.Get(string(third))
		if a, b := f.get(t, first), f.get(t, second); a.State != Succeeded || b.State != Cancelled || stored.State != Running {
			t.Errorf("the first is %s, the second %s, the third %s", a.State, b.State, stored.State)
		}
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if c, d := f.get(t, third), f.get(t, fourth); c.Error.Code != protocol.OutcomeUnknown || d.Error.Code != protocol.ShuttingDown {
			t.Errorf("the bridge stopped: the third has %+v, the fourth %+v", c.Error, d.Error)
		}
	})
}

func TestAResultThatIsTooLargeIsNotKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFixture(func(o *Options) { o.MaxResult = 10 })
		defer f.Close(context.Background())
		id := f.start(t, func(context.Context, *commands.Call) (json.RawMessage, error) {
			return json.RawMessage(`{"long":"result"}`), nil
		})
		synctest.Wait()
		if task := f.get(t, id); task.State != Failed || task.Error.Code != protocol.PayloadTooLarge || task.Result != nil {
			t.Errorf("ended as %+v", task)
		}
	})
}

func TestOnePrincipalCannotTakeAllTheRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFixture(func(o *Options) { o.MaxOwn = 1 })
		defer f.Close(context.Background())
		forever := func(ctx context.Context, _ *commands.Call) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		id := f.start(t, forever)
		if _, err := f.Start(t.Context(), callBy(alice), nil); protocol.CodeOf(err) != protocol.Busy {
			t.Errorf("a second one: %v", err)
		}
		bob := callBy(&protocol.Principal{ID: "bob"})
		if _, err := f.Start(t.Context(), bob, func(context.Context) (json.RawMessage, error) { return nil, nil }); err != nil {
			t.Errorf("somebody else: %v", err)
		}
		if _, err := f.Cancel(t.Context(), callBy(alice), CancelParams{TaskID: id}); err != nil {
			t.Fatal(err)
		}
		f.start(t, forever)
	})
}

func TestTasksOfOneKeepNobodyElseWaiting(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFixture(func(o *Options) { o.MaxRunning = 16 })
		defer f.Close(context.Background())
		forever := func(ctx context.Context, _ *commands.Call) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		for range 20 { // four run
			f.start(t, forever)
		}
		synctest.Wait()
		if running, waiting := f.places.Used(), f.places.Waiting(); running != 4 || waiting != 16 {
			t.Errorf("%d run and %d wait, want 4 and 16", running, waiting)
		}
		bob := callBy(&protocol.Principal{ID: "bob"})
		id, err := f.Start(t.Context(), bob, func(context.Context) (json.RawMessage, error) { return json.RawMessage(`{}`), nil })
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if stored, _, _ := f.table.Get(string(id)); stored.State != Succeeded {
			t.Errorf("somebody else's is %s", stored.State)
		}
	})
}

func TestTheEndOfATaskOutlivesAnAbsentStore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFixture()
		defer f.Close(context.Background())
		id := f.start(t, func(context.Context, *commands.Call) (json.RawMessage, error) {
			f.table.Break(protocol.Errorf(protocol.StoreUnavailable, "away"))
			return json.RawMessage(`{}`), nil
		})
		time.Sleep(5 * time.Second) // in the bubble's time
		if task := f.get(t, id); task.State != Running {
			t.Errorf("not stored, but %s", task.State)
		}
		f.table.Break(nil)
		time.Sleep(time.Minute)
		if stored, _, _ := f.table.Get(string(id)); stored.State != Succeeded {
			t.Errorf("stored as %s", stored.State)
		}
	})
}

func TestATaskThatCannotBeStoredIsNotRun(t *testing.T) {
	f := newFixture()
	defer f.Close(context.Background())
	f.table.Break(protocol.Errorf(protocol.StoreUnavailable, "away"))
	if _, err := f.Start(t.Context(), callBy(alice), nil); protocol.CodeOf(err) != protocol.StoreUnavailable {
		t.Errorf("got %v", err)
	}
	if len(f.live) != 0 || len(f.own) != 0 || f.places.Used() != 0 {
		t.Error("it takes up room")
	}
}

func TestTooManyTasksAreRefusedWithAHint(t *testing.T) {
	f := newFixture()
	f.MaxTasks = 1
	defer f.Close(context.Background())
	f.start(t, func(ctx context.Context, _ *commands.Call) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	_, err := f.Start(t.Context(), callBy(alice), nil)
	var e *protocol.Error
	if !errors.As(err, &e) || e.Code != protocol.Busy || e.Details["retry_after_ms"] == nil {
		t.Errorf("got %v", err)
	}
}

func TestTheDeclarationsAreSound(t *testing.T) {
	if _, err := commands.NewSet(newFixture().Commands()...); err != nil {
		t.Error(err)
	}
}
