package topic

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

func TestTopicsOfTheProfileAreTakenApart(t *testing.T) {
	t.Parallel()
	for topic, want := range map[string]name{
		"$a2a/v1/discovery/o/u/a":                          {discovery, "o/u/a", ""},
		"$a2a/v1/request/o/u/a":                            {requests, "o/u/a", ""},
		"$a2a/v1/request/o/u/pool/p":                       {requests, "o/u/pool/p", ""},
		"$a2a/v1/reply/o/u/a/x/y":                          {replies, "o/u/a", "x/y"},
		"$a2a/v1/event/O.r-g/u_1/A.a":                      {events, "O.r-g/u_1/A.a", ""},
		"$a2a/v1/reply/o/u/a/#":                            {replies, "o/u/a", "#"},
		"$a2a/v1/request/o/u/pool":                         {},
		"$a2a/v1/request/o/u/a/b":                          {},
		"$a2a/v1/request/o/u/pool/p/q":                     {},
		"$a2a/v1/discovery/o/u":                            {},
		"$a2a/v1/discovery/o//a":                           {},
		"$a2a/v1/discovery/+/u/a":                          {},
		"$a2a/v1/discovery/o/u/é":                          {},
		"$a2a/v1/else/o/u/a":                               {},
		"$a2a/v2/discovery/o/u/a":                          {},
		"a2a/v1/discovery/o/u/a":                           {},
		"$a2a/v1/discovery/o/u/" + strings.Repeat("a", 65): {},
	} {
		if got, ok := parse(topic); ok != (want != name{}) || ok && got != want {
			t.Errorf("%s: %+v %v", topic, got, ok)
		}
	}
}

// FuzzCheckCard: no card of a client harms, and an accepted one is small and has a
// name.
func FuzzCheckCard(f *testing.F) {
	f.Add([]byte(`{"name":"x","description":"","version":"","capabilities":{},"defaultInputModes":[],"defaultOutputModes":[],"skills":[{"id":"a","name":"b"}],"supportedInterfaces":[{"url":"x","protocolBinding":"y","protocolVersion":"1.0"}]}`))
	f.Add([]byte(`{"name":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if checkCard(text) == nil && (len(text) > maxCard || !strings.Contains(string(text), "ame")) {
			t.Fatalf("%q is taken", text)
		}
	})
}

func TestRequestsThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	a, by := newAsked(), protocol.Party{ID: "x"}
	at := func(i int) wait { return wait{"s", "t", string(rune(i))} }
	for i := range mostAsked + 10 {
		if !a.note(at(i), "o/u/a", by) {
			t.Fatal("a request is refused")
		}
	}
	if _, ok := a.of(at(0)); ok || len(a.waits) != mostAsked || len(a.by[by]) != mostAsked {
		t.Errorf("there are %d", len(a.waits))
	}
	if to, ok := a.of(at(mostAsked + 9)); !ok || to != "o/u/a" {
		t.Errorf("the latest is of %q", to)
	}
	if a.note(at(mostAsked+9), "o/u/a", protocol.Party{ID: "y"}) {
		t.Error("somebody else waits for the same reply")
	}
}

// TestNoSpaceHasAllRequestsThatWait has a space ask as much as it may, which leaves
// room for the others, and forgets requests without a reply for an hour.
func TestNoSpaceHasAllRequestsThatWait(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		a := newAsked()
		ask := func(space protocol.SpaceID, i int) bool {
			return a.note(wait{space, "t", fmt.Sprint(i)}, "o/u/a", protocol.Party{Space: space, ID: fmt.Sprint(i / mostAsked)})
		}
		for i := range ofSpace {
			if !ask("red", i) {
				t.Fatalf("request %d is refused", i)
			}
		}
		if ask("red", ofSpace) || !ask("blue", 0) {
			t.Error("one space has all")
		}
		time.Sleep(askedFor)
		a.replied(wait{"red", "t", "7"})
		time.Sleep(time.Second)
		if !ask("red", ofSpace) || len(a.waits) != 2 || a.in["red"] != 2 || a.in["blue"] != 0 {
			t.Errorf("%d wait, of spaces %v", len(a.waits), a.in)
		}
	})
}

func TestACardChangesTenTimesAMinute(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		registry := &Topic{Options: Options{
			Cards: recordstest.New[Card](), BridgeID: "b",
			Client: func(protocol.SpaceID, string) (*protocol.Principal, bool) { return nil, false },
		}}
		store := func(text string) byte {
			return registry.store(t.Context(), &Card{Space: "s", ID: "o/u/a", Owner: protocol.Party{ID: "x"}, Card: text}).Reason
		}
		for i := range cardChanges {
			if reason := store(fmt.Sprint(i)); reason != 0 {
				t.Fatalf("change %d: %#x", i, reason)
			}
		}
		if again, another, gone := store(fmt.Sprint(cardChanges-1)), store("another"), store(""); again != 0 || another != quotaExceeded || gone != quotaExceeded {
			t.Errorf("the same %#x, another %#x, none %#x", again, another, gone)
		}
		time.Sleep(time.Minute + time.Second)
		if reason := store("another"); reason != 0 {
			t.Errorf("a minute later: %#x", reason)
		}
	})
}
