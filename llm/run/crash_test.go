package run

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

func TestARunThatWasKilledGoesOnWhereItsDocumentsSay(t *testing.T) {
	stuck := make(chan struct{})
	n := 0
	first := climate()
	w := imported(t, func(ctx context.Context, q model.Question) (*chat.Answer, error) {
		if n == 3 {
			close(stuck)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		n++
		return first[n-1], nil
	})
	id := w.start(StartParams{Package: "climate-check", Project: "home"})
	<-stuck
	var resumed string
	rest := script(append(climate()[4:], afterwards()...)...)
	w.restart(func(ctx context.Context, q model.Question) (*chat.Answer, error) {
		if resumed == "" {
			resumed = lastRequest(q)
		}
		return rest(ctx, q)
	})
	if got := w.rest(id); got.Phase != WaitingUser || got.Node != "adjust" {
		t.Fatalf("after the restart: %+v", got)
	}
	for _, part := range []string{"- intent: resume\n", "- currentNodeId: judge\n"} {
		if !strings.Contains(resumed, part) {
			t.Errorf("it was resumed without %q:\n%s", part, resumed)
		}
	}
	if strings.Contains(resumed, "[assistant]") || strings.Contains(resumed, "[tool]") {
		t.Errorf("it was resumed by what was said:\n%s", resumed)
	}
	w.restart(script(afterwards()...)) // while it waits
	w.goOn(id, ptr("21"))
	if got := w.rest(id); got.Phase != Completed {
		t.Fatalf("at the end: %+v", got)
	}
	ids := map[string]bool{}
	for _, turn := range w.turns(id) {
		if ids[turn.ID] {
			t.Errorf("two turns are %s", turn.ID)
		}
		ids[turn.ID] = true
	}
}

func TestAnEffectOfBeforeACrashIsNotRepeated(t *testing.T) {
	stuck := make(chan struct{})
	before := append(climate()[:3], climate()[4], calls("thermostat-go.set_target", `{"celsius":21}`))
	n := 0
	w := imported(t, func(ctx context.Context, _ model.Question) (*chat.Answer, error) {
		if n == len(before) {
			close(stuck)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		n++
		return before[n-1], nil
	})
	id := w.start(StartParams{Package: "climate-check", Project: "home"})
	<-stuck
	w.restart(script(calls("thermostat-go.set_target", `{ "celsius": 21 }`), calls("thermostat-go.set_target", `{"celsius":21}`), says("set")))
	w.rest(id)
	if len(w.device.sets) != 2 {
		t.Errorf("the thermostat was set %d times: once before, not again, and once because it was asked for again", len(w.device.sets))
	}
	turns := w.turns(id)
	replayed, again := turns[len(turns)-3].ToolRuns[0], turns[len(turns)-2].ToolRuns[0]
	if !replayed.Replayed || !strings.Contains(string(replayed.Result), `"replayed":true`) || !strings.Contains(string(replayed.Result), `"target":21`) {
		t.Errorf("the repeat was answered with %s", replayed.Result)
	}
	if again.Replayed {
		t.Error("the third call is taken for a repeat")
	}
}

func TestWhatTheUserSaidSurvivesACrash(t *testing.T) {
	before := append(climate(), nil)
	n := 0
	stuck := make(chan struct{}, 1)
	stall := func(ctx context.Context) (*chat.Answer, error) {
		stuck <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	w := imported(t, func(ctx context.Context, _ model.Question) (*chat.Answer, error) {
		if before[n] == nil {
			return stall(ctx)
		}
		n++
		return before[n-1], nil
	})
	id := w.start(StartParams{Package: "climate-check", Project: "home"})
	w.rest(id)
	w.goOn(id, ptr("21 please"))
	<-stuck
	for range 2 { // it is killed twice in the same step
		var request string
		w.restart(func(ctx context.Context, q model.Question) (*chat.Answer, error) {
			request = lastRequest(q)
			return stall(ctx)
		})
		<-stuck
		if !strings.Contains(request, "- intent: resume\n") || !strings.HasSuffix(request, "[user] USER_INPUT\n- forNodeId: adjust\n21 please\n") {
			t.Fatalf("it is resumed with\n%s", request)
		}
	}
	var after string
	rest := script(append(afterwards()[:3:3], says("where was I?"))...)
	w.restart(func(ctx context.Context, q model.Question) (*chat.Answer, error) { return rest(ctx, q) })
	w.rest(id)
	w.restart(func(ctx context.Context, q model.Question) (*chat.Answer, error) {
		after = lastRequest(q)
		return nil, protocol.Errorf(protocol.LLMRefused, "no").With("reason", "auth")
	})
	w.goOn(id, ptr("go on"))
	w.rest(id)
	if strings.Count(after, "21 please") != 1 || !strings.HasSuffix(after, "go on\n") {
		t.Errorf("cleanly at rest, it goes on with\n%s", after)
	}
	w.goOn(id, nil)
	w.rest(id)
	if !strings.HasSuffix(after, "USER_INPUT\n- forNodeId: report\ngo on\n") || strings.Contains(after, "21 please") {
		t.Errorf("after a failure, it goes on with\n%s", after)
	}
}

func TestADeviceMayComeBackALittleLaterThanTheBridge(t *testing.T) {
	w := imported(t, script())
	w.restart(script(calls("thermostat-go.set_target", `{"celsius":21}`), says("set")))
	w.device.offline = true
	pauses := 0
	w.pausing = func(context.Context, time.Duration) error {
		pauses++
		w.device.mu.Lock()
		defer w.device.mu.Unlock()
		w.device.offline = pauses < 3
		return nil
	}
	id := w.start(StartParams{Package: "climate-check", Project: "p"})
	w.rest(id)
	if got := w.turns(id)[0].ToolRuns[0]; !strings.HasPrefix(string(got.Result), `{"ok":true`) || pauses != 3 || len(w.device.sets) != 1 {
		t.Errorf("after %d pauses it was answered with %s", pauses, got.Result)
	}
}

func TestACallIsMadeWhenItCanBeStored(t *testing.T) {
	w := imported(t, script(calls("thermostat-go.set_target", `{"celsius":21}`), says("set")))
	w.device.unstored = 2
	pauses := 0
	w.pausing = func(context.Context, time.Duration) error { pauses++; return nil }
	id := w.start(StartParams{Package: "climate-check", Project: "p"})
	w.rest(id)
	if got := w.turns(id)[0].ToolRuns[0]; !strings.HasPrefix(string(got.Result), `{"ok":true`) || pauses != 2 || len(w.device.sets) != 1 || len(w.device.claims) != 1 {
		t.Errorf("after %d pauses and calls under %d keys it was answered with %s", pauses, len(w.device.claims), got.Result)
	}
}

func TestACallThatFailedBeforeACrashIsAttemptedAgain(t *testing.T) {
	stuck := make(chan struct{})
	before := append(climate()[:3], climate()[4], calls("thermostat-go.set_target", `{"celsius":21}`))
	n := 0
	w := imported(t, func(ctx context.Context, _ model.Question) (*chat.Answer, error) {
		if n == len(before) {
			close(stuck)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		n++
		return before[n-1], nil
	})
	w.device.offline = true
	id := w.start(StartParams{Package: "climate-check", Project: "home"})
	<-stuck
	w.device.mu.Lock()
	w.device.offline = false
	w.device.mu.Unlock()
	w.restart(script(calls("thermostat-go.set_target", `{"celsius":21}`), says("set")))
	w.rest(id)
	turns := w.turns(id)
	if got := turns[len(turns)-2].ToolRuns[0]; got.Replayed || !strings.HasPrefix(string(got.Result), `{"ok":true`) || len(w.device.sets) != 1 {
		t.Errorf("it was answered with %s, and the device was set %d times", got.Result, len(w.device.sets))
	}
}

func TestAnEffectWithoutARecordIsSaidToBeUnknown(t *testing.T) {
	before := append(climate()[:3], climate()[4], calls("thermostat-go.set_target", `{"celsius":21}`))
	w := imported(t, script(before...))
	begun := make(chan struct{})
	w.device.holds, w.device.begun = true, begun
	id := w.start(StartParams{Package: "climate-check", Project: "home"})
	<-begun
	w.restart(script(calls("thermostat-go.set_target", `{"celsius":21}`), says("I look"))) // while the device acts
	w.device.mu.Lock()
	w.device.holds = false
	w.device.mu.Unlock()
	w.rest(id)
	turns := w.turns(id)
	last := turns[len(turns)-2].ToolRuns[0]
	if !strings.Contains(string(last.Result), string(fault.OutcomeUnknown)) || len(w.device.sets) != 1 {
		t.Errorf("it was answered with %s, and the device was set %d times", last.Result, len(w.device.sets))
	}
}

// A ledger answers as the bridge does that was killed while it ran a call: what
// was begun under a key is not done again under it, and how it ended is not
// known.
type ledger struct {
	mu     sync.Mutex
	begun  map[string]int // by key
	stuck  chan struct{}  // closed when the first call has begun
	sounds int            // calls that ended
}

func (l *ledger) run(ctx context.Context, _ *tools.Execution) (tools.Output, error) {
	key := tools.KeyOf(ctx)
	l.mu.Lock()
	l.begun[key]++
	first, again := len(l.begun) == 1, l.begun[key] > 1
	if !first && !again {
		l.sounds++
	}
	l.mu.Unlock()
	switch {
	case again:
		return tools.Output{}, protocol.Errorf(protocol.OutcomeUnknown, "it was begun, and how it ended is not known")
	case first:
		close(l.stuck)
		<-ctx.Done()
		return tools.Output{}, ctx.Err()
	}
	return tools.Output{Text: "rung"}, nil
}

func TestAnIdempotentCallIsRunAgainAfterACrash(t *testing.T) {
	for name, test := range map[string]struct {
		idempotent bool
		want       string
		sounds     int
	}{
		"idempotent":     {true, `{"ok":true,"result":"rung"}`, 1},
		"not idempotent": {false, string(fault.OutcomeUnknown), 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := &ledger{begun: make(map[string]int), stuck: make(chan struct{})}
			ring := calls("bell.ring", `{"times":1,"at":"door"}`)
			w := newWorld(t, script(ring), func(o *Options) {
				bell, err := tools.Fixed(&tools.Tool{
					Declaration: tools.Declaration{Name: "bell.ring", Effect: commands.Act, Source: "skill", Idempotent: test.idempotent, Schema: json.RawMessage(`{"type":"object"}`)},
					Run:         l.run,
				})
				if err != nil {
					t.Fatal(err)
				}
				o.Catalogue = tools.New(bell)
			})
			id := w.start(StartParams{Input: ptr("ring")})
			<-l.stuck
			w.restart(script(calls("bell.ring", `{"at":"door","times":1}`), says("done")))
			w.rest(id)
			turns := w.turns(id)
			got := turns[len(turns)-2].ToolRuns[0]
			if !strings.Contains(string(got.Result), test.want) || l.sounds != test.sounds || got.Replayed {
				t.Errorf("it is answered with %s, and the bell rang %d times", got.Result, l.sounds)
			}
		})
	}
}

func TestEachAttemptAfterACrashIsAnotherRequest(t *testing.T) {
	f := newEffects("run")
	for range 3 {
		f.read(&entry{Effect: &effectEntry{Key: "k", Tool: "bell.ring"}})
	}
	if got := f.known["k"].attempt; got != 3 {
		t.Errorf("it was begun %d times", got)
	}
}
