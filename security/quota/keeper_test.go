package quota

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/aibridge/aibridge/protocol"
)

// A world is a keeper on a clock that the test moves.
type world struct {
	*Keeper
	t   *testing.T
	now time.Time
}

func newWorld(t *testing.T, o Options) *world {
	t.Helper()
	w := &world{t: t, now: time.Unix(1_700_000_000, 0)}
	o.Now = func() time.Time { return w.now }
	k, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	w.Keeper = k
	return w
}

func agent(id string, space protocol.SpaceID) *protocol.Principal {
	return &protocol.Principal{Kind: protocol.KindAgent, ID: id, Space: space, Roles: []string{protocol.RoleEndAgent}}
}

func administrator() *protocol.Principal {
	return &protocol.Principal{Kind: protocol.KindOperator, ID: "administrator", Roles: []string{protocol.RoleAdministrator}}
}

// admitted is the number of commands of n that get through at once.
func (w *world) admitted(who *protocol.Principal, n, size int) (ok int, last *protocol.Error) {
	for range n {
		if err := w.Admit(who, size); err != nil {
			last = err
		} else {
			ok++
		}
	}
	return ok, last
}

func TestARateIsWhatOneGetsInASecond(t *testing.T) {
	w := newWorld(t, Options{Principal: Limits{Requests: 5}})
	lamp := agent("lamp", "")
	ok, err := w.admitted(lamp, 8, 10)
	if ok != 5 || protocol.CodeOf(err) != protocol.RateLimited {
		t.Fatalf("%d passed, then %v; want 5, then 4009", ok, err)
	}
	if err.Details["limit"] != "requests" || err.Details["of"] != "principal" || err.Details["most"] != 5 {
		t.Errorf("details are %v", err.Details)
	}
	w.now = w.now.Add(err.RetryAfter())
	if ok, _ := w.admitted(lamp, 3, 10); ok != 1 {
		t.Errorf("%d passed after the time that was told, want 1", ok)
	}
	w.now = w.now.Add(time.Hour)
	if ok, _ := w.admitted(lamp, 8, 10); ok != 5 {
		t.Errorf("%d passed after an hour, want 5: what is not used is not saved up", ok)
	}
	if ok, _ := w.admitted(agent("fan", ""), 8, 10); ok != 5 {
		t.Errorf("another principal got %d through, want 5", ok)
	}
}

func TestWhoComesBackTooEarlyIsToldAgain(t *testing.T) {
	w := newWorld(t, Options{Principal: Limits{Requests: 1}})
	lamp := agent("lamp", "")
	if ok, err := w.admitted(lamp, 2, 0); ok != 1 || err.RetryAfter() != time.Second {
		t.Fatalf("%d passed, then %v", ok, err)
	}
	w.now = w.now.Add(400 * time.Millisecond)
	if err := w.Admit(lamp, 0); err == nil || err.RetryAfter() != 600*time.Millisecond {
		t.Errorf("%v, want to wait for what is left of the second", err)
	}
}

func TestBytesAreCountedWithCommandsAndMessages(t *testing.T) {
	w := newWorld(t, Options{Principal: Limits{Bytes: 1000, Requests: 100}})
	lamp := agent("lamp", "")
	if err := w.Admit(lamp, 600); err != nil {
		t.Fatal(err)
	}
	if text := w.Message(lamp, 5000); text != "" {
		t.Fatalf("a message that is larger than what is left is refused: %s", text)
	}
	err := w.Admit(lamp, 1)
	if err == nil || err.Details["limit"] != "bytes" {
		t.Fatalf("%v, want the limit of bytes", err)
	}
	if got := err.RetryAfter(); got < 4*time.Second || got > 5*time.Second {
		t.Errorf("to wait %v for 5600 bytes at 1000 a second, want 4.6 s", got)
	}
	if text := w.Message(lamp, 1); !strings.Contains(text, "bytes") {
		t.Errorf("a message is told %q", text)
	}
	w.now = w.now.Add(4700 * time.Millisecond)
	if err := w.Admit(lamp, 1); err != nil {
		t.Error(err)
	}
}

func TestWhatIsRefusedForItsBytesCostsNoRequest(t *testing.T) {
	w := newWorld(t, Options{Principal: Limits{Bytes: 10, Requests: 2}})
	lamp := agent("lamp", "")
	for range 5 {
		_ = w.Admit(lamp, 20)
	}
	w.now = w.now.Add(2 * time.Second)
	if err := w.Admit(lamp, 20); err != nil {
		t.Error(err)
	}
}

func TestMessagesAndRequestsAreCountedApart(t *testing.T) {
	w := newWorld(t, Options{Principal: Limits{Messages: 2, Requests: 3}})
	lamp := agent("lamp", "")
	for i, want := range []bool{true, true, false} {
		if got := w.Message(lamp, 1) == ""; got != want {
			t.Errorf("message %d: %v", i+1, got)
		}
	}
	if ok, _ := w.admitted(lamp, 5, 1); ok != 3 {
		t.Errorf("%d commands passed, want 3", ok)
	}
}

func TestASpaceIsLimitedAsAWhole(t *testing.T) {
	w := newWorld(t, Options{Principal: Limits{Requests: 4}, Space: Limits{Requests: 6}})
	first, second, elsewhere := agent("first", "house"), agent("second", "house"), agent("third", "barn")
	if ok, _ := w.admitted(first, 9, 0); ok != 4 {
		t.Fatalf("%d passed, want 4", ok)
	}
	ok, err := w.admitted(second, 9, 0)
	if ok != 2 || err.Details["of"] != "space" || err.Details["most"] != 6 {
		t.Fatalf("%d of the second passed, then %v; want 2, and the space's limit", ok, err)
	}
	if ok, _ := w.admitted(elsewhere, 9, 0); ok != 4 {
		t.Errorf("%d passed in another space, want 4", ok)
	}
	// What the space refused was not taken from the principal: it has all but
	// the two that passed.
	w.now = w.now.Add(time.Second)
	if ok, _ := w.admitted(second, 9, 0); ok != 4 {
		t.Errorf("%d passed a second later, want 4", ok)
	}
}

func TestTheSameNameElsewhereIsSomebodyElse(t *testing.T) {
	w := newWorld(t, Options{Principal: Limits{Requests: 1}})
	operator := agent("lamp", "")
	operator.Kind = protocol.KindOperator
	for _, who := range []*protocol.Principal{agent("lamp", ""), agent("lamp", "barn"), operator} {
		if err := w.Admit(who, 0); err != nil {
			t.Errorf("%s %s in %q: %v", who.Kind, who.ID, who.Space, err)
		}
	}
}

func TestAdministratorsHaveLimitsOfTheirOwnAndTakeNothingFromSpaces(t *testing.T) {
	w := newWorld(t, Options{Principal: Limits{Requests: 1, Connections: 1}, Space: Limits{Requests: 2, Connections: 2}})
	if ok, _ := w.admitted(administrator(), 100, 0); ok != 100 {
		t.Errorf("%d of an administrator's passed, want all", ok)
	}
	for range 10 {
		if err := w.Connect(administrator()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.MayConnect(agent("lamp", "")); err != nil {
		t.Errorf("administrators have taken the space's connections: %v", err)
	}
	if err := w.Admit(agent("lamp", ""), 0); err != nil {
		t.Error(err)
	}
	w = newWorld(t, Options{Privileged: Limits{Requests: 3}})
	if ok, _ := w.admitted(administrator(), 9, 0); ok != 3 {
		t.Errorf("%d passed of an administrator who is limited, want 3", ok)
	}
}

func TestTheBridgeIsNotLimited(t *testing.T) {
	w := newWorld(t, Options{Principal: Limits{Requests: 1}, Privileged: Limits{Requests: 1}, Space: Limits{Requests: 1}})
	bridge := &protocol.Principal{Kind: protocol.KindBridge, ID: "aibridge"}
	if ok, _ := w.admitted(bridge, 9, 0); ok != 9 {
		t.Errorf("%d passed", ok)
	}
}

func TestConnectionsAreCountedUntilTheyEnd(t *testing.T) {
	w := newWorld(t, Options{Principal: Limits{Connections: 2}, Space: Limits{Connections: 3}})
	lamp, fan := agent("lamp", ""), agent("fan", "")
	for range 2 {
		if err := w.MayConnect(lamp); err != nil {
			t.Fatal(err)
		}
		if err := w.Connect(lamp); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.MayConnect(lamp); protocol.CodeOf(err) != protocol.RateLimited || err.Details["of"] != "principal" {
		t.Errorf("a third may connect: %v", err)
	}
	if err := w.Connect(fan); err != nil {
		t.Fatal(err)
	}
	if err := w.MayConnect(fan); err == nil || err.Details["of"] != "space" {
		t.Errorf("a fourth of the space may connect: %v", err)
	}
	if err := w.Connect(fan); err == nil {
		t.Error("a connection that is one too many is not noticed")
	}
	w.Disconnect(fan)
	w.Disconnect(lamp)
	if err := w.MayConnect(lamp); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

func TestWithoutLimitsNothingIsKept(t *testing.T) {
	w := newWorld(t, Options{})
	if !w.None() {
		t.Error("something is limited")
	}
	if ok, _ := w.admitted(agent("lamp", ""), 1000, 1<<20); ok != 1000 {
		t.Errorf("%d passed", ok)
	}
	if n := w.accounts(); n != 0 {
		t.Errorf("%d accounts", n)
	}
}

func TestWhoTakesNothingIsForgottenAndWhoIsConnectedIsNot(t *testing.T) {
	w := newWorld(t, Options{Principal: Limits{Requests: 10, Connections: 1}})
	w.room = 64
	stays := agent("stays", "")
	if err := w.Connect(stays); err != nil {
		t.Fatal(err)
	}
	for i := range 5 * shards * w.room {
		if i%1000 == 0 {
			w.now = w.now.Add(time.Second)
		}
		if err := w.Admit(agent(fmt.Sprint("passing-", i), ""), 1); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.accounts(); n > shards*w.room*5/4 {
		t.Errorf("%d accounts of parties that take nothing any more", n)
	}
	if err := w.MayConnect(stays); err == nil {
		t.Error("a connection that is open was forgotten")
	}
}

func TestManyAtOnceGetNoMoreThanTheRate(t *testing.T) {
	w := newWorld(t, Options{Principal: Limits{Requests: 1000}})
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			lamp := agent("lamp", "")
			for range 500 {
				if w.Admit(lamp, 1) == nil {
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := passed.Load(); n != 1000 {
		t.Errorf("%d of 4000 passed, want 1000", n)
	}
}

func TestRefusalsAreCounted(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	w := newWorld(t, Options{Principal: Limits{Requests: 1}, Registerer: registry})
	w.admitted(agent("lamp", ""), 4, 0)
	w.Refused(Retained, true)
	m := w.metrics.refusals
	if got := testutil.ToFloat64(m.WithLabelValues("requests", "principal")); got != 3 {
		t.Errorf("%v requests refused, want 3", got)
	}
	if got := testutil.ToFloat64(m.WithLabelValues("retained", "space")); got != 1 {
		t.Errorf("%v retained messages refused, want 1", got)
	}
}

func TestWhoIsRefusedTooOftenIsNotListenedTo(t *testing.T) {
	w := newWorld(t, Options{Principal: Limits{Refusals: 4}})
	lamp := agent("lamp", "")
	for range 3 {
		w.Refusal(lamp)
	}
	if err := w.Admit(lamp, 0); err != nil {
		t.Fatalf("after three: %v", err)
	}
	for range 2000 { // those that were on their way
		w.Refusal(lamp)
	}
	err := w.Admit(lamp, 0)
	if err == nil || err.Code != protocol.RateLimited || err.Details["limit"] != "refusals" || err.RetryAfter() > time.Second {
		t.Fatalf("after many: %v", err)
	}
	if w.Message(lamp, 1) != "" || w.Admit(agent("fan", ""), 0) != nil {
		t.Error("messages, or somebody else's commands, are refused")
	}
	w.now = w.now.Add(err.RetryAfter())
	if err := w.Admit(lamp, 0); err != nil {
		t.Errorf("after the time that was told: %v", err)
	}
}

func TestAskingCostsNoMemory(t *testing.T) {
	w := newWorld(t, Options{Principal: Limits{Requests: 1 << 30, Messages: 1 << 30, Bytes: 1 << 30}, Space: Limits{Requests: 1 << 30}})
	lamp := agent("lamp", "house")
	if n := testing.AllocsPerRun(100, func() { _ = w.Admit(lamp, 10); _ = w.Message(lamp, 10) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAdmit(b *testing.B) {
	for name, shared := range map[string]bool{"alone": false, "beside others": true} {
		b.Run(name, func(b *testing.B) {
			k, err := New(Options{Principal: Limits{Requests: 1 << 30, Bytes: 1 << 30}, Shared: shared})
			if err != nil {
				b.Fatal(err)
			}
			lamp := agent("lamp", "")
			for b.Loop() {
				_ = k.Admit(lamp, 100)
			}
		})
	}
}
