package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

func lamp(n int, space protocol.SpaceID) protocol.Party {
	return protocol.AgentID(fmt.Sprint("lamp-", n)).Party(space)
}

// A clockwork is a clock that goes when it is told to.
type clockwork struct{ now time.Time }

func (c *clockwork) time() time.Time { return c.now }

func newClockwork() *clockwork { return &clockwork{time.Unix(1_700_000_000, 0)} }

func TestTheSameFaultIsCounted(t *testing.T) {
	c := newClockwork()
	b := NewCasebook(c.time)
	began := c.now
	for range 5 {
		b.Note(Fault{Kind: PublishRefused, Party: lamp(1, "a"), Client: "c", Topic: "x", Reason: "first\nline"})
		c.now = c.now.Add(time.Second)
	}
	b.Note(Fault{Kind: PublishRefused, Party: lamp(1, "a"), Client: "c", Topic: "y"})
	cases := b.Of(lamp(1, "a"))
	if len(cases) != 2 || cases[0].Topic != "y" || cases[1].Times != 5 || !cases[1].First.Equal(began) || cases[1].Reason != "first line" {
		t.Errorf("%+v", cases)
	}
	if len(b.Of(lamp(1, "b"))) > 0 || len(b.Strangers("c")) > 0 {
		t.Error("faults are found under another name")
	}
	c.now = c.now.Add(keptFor)
	if cases := b.Of(lamp(1, "a")); len(cases) > 0 {
		t.Errorf("a day later: %+v", cases)
	}
}

func TestACasebookIsBounded(t *testing.T) {
	c := newClockwork()
	b := NewCasebook(c.time)
	long := strings.Repeat("long ", 1000)
	for n := range 3 * casesOfDevice {
		b.Note(Fault{Kind: PublishRefused, Party: lamp(0, "quiet"), Topic: fmt.Sprint(n), Reason: long})
	}
	if cases := b.Of(lamp(0, "quiet")); len(cases) != casesOfDevice || cases[0].Topic != fmt.Sprint(3*casesOfDevice-1) || len(cases[0].Reason) > mostReason+4 {
		t.Errorf("%d cases of a device are kept, the latest %.400q", len(cases), cases[0].Reason)
	}
	for _, space := range []protocol.SpaceID{"a", "b", "c", "d", "e"} {
		for n := range subjectsOfSpace + 10 {
			b.Note(Fault{Kind: PublishRefused, Party: lamp(n, space)})
		}
	}
	inAll := 0
	for space, w := range b.spaces {
		if n := w.order.Len(); n != len(w.of) || n > subjectsOfSpace {
			t.Errorf("space %s has %d parties, %d by name", space, n, len(w.of))
		}
		inAll += w.order.Len()
	}
	if inAll != b.subjects || inAll > subjectsInAll {
		t.Errorf("%d parties are kept, %d counted", inAll, b.subjects)
	}
	if len(b.Of(lamp(0, "quiet"))) == 0 {
		t.Error("a space with one party lost it to those with many")
	}
	if len(b.Of(lamp(0, "a"))) > 0 || len(b.Of(lamp(subjectsOfSpace+9, "e"))) == 0 {
		t.Error("it is not the oldest that is forgotten")
	}
}

func TestAFloodOfStrangersReachesNobodyElse(t *testing.T) {
	c := newClockwork()
	b := NewCasebook(c.time)
	b.Note(Fault{Kind: PublishRefused, Party: lamp(1, "a")})
	for n := range 10 * strangersInASpell {
		b.Note(Fault{Kind: UnknownCredential, Client: fmt.Sprint("client-", n)})
	}
	if n := b.strangers.order.Len(); n != strangersInASpell {
		t.Errorf("%d strangers are noted in a second", n)
	}
	for n := range 3 * strangersKept {
		c.now = c.now.Add(time.Second)
		b.Note(Fault{Kind: UnknownCredential, Client: fmt.Sprint("client-", n), Unproven: true})
		if len(b.Strangers(fmt.Sprint("client-", n))) == 0 {
			t.Fatal("the latest stranger is forgotten")
		}
	}
	if n := b.strangers.order.Len(); n != strangersKept || len(b.strangers.of) != n {
		t.Errorf("%d strangers are kept", n)
	}
	for n := range 2 * casesOfStranger {
		c.now = c.now.Add(time.Second)
		b.Note(Fault{Kind: BadConnect, Client: "one", Topic: fmt.Sprint(n)})
	}
	if cases := b.Strangers("one"); len(cases) != casesOfStranger {
		t.Errorf("%d cases of a stranger are kept", len(cases))
	}
	if len(b.Of(lamp(1, "a"))) != 1 {
		t.Error("strangers took the room of somebody who is known")
	}
}

func TestEveryKindHasWords(t *testing.T) {
	for kind, w := range inWords {
		if w.what == "" || w.do == "" || !strings.Contains(string(kind), ".") {
			t.Errorf("%s: %+v", kind, w)
		}
	}
}

func TestADeviceIsToldOfAKindOnceAMinute(t *testing.T) {
	c := newClockwork()
	s := New(Options{Now: c.time})
	about := subjectOfNotice{"a", "lamp", AnswerUnreadable}
	if !s.due(about, c.now) || s.due(about, c.now.Add(tellEvery-1)) || !s.due(about, c.now.Add(tellEvery)) {
		t.Error("not once a minute")
	}
	for n := range 2 * toldRemembered {
		s.due(subjectOfNotice{"a", protocol.AgentID(fmt.Sprint(n)), AnswerUnreadable}, c.now.Add(tellEvery))
	}
	if len(s.told) > toldRemembered {
		t.Errorf("%d are remembered", len(s.told))
	}
	if !s.due(subjectOfNotice{"a", "another", AnswerUnreadable}, c.now.Add(2*tellEvery)) {
		t.Error("nobody is told any more, once many were")
	}
}

// Who knows the id of a key can make faults of its owner, and pushes out none of
// what the owner did.
func TestUnprovenFaultsPushOutOnlyEachOther(t *testing.T) {
	c := newClockwork()
	b := NewCasebook(c.time)
	for n := range casesOfDevice {
		b.Note(Fault{Kind: PublishRefused, Party: lamp(1, "a"), Topic: fmt.Sprint(n)})
	}
	for n := range 10 * casesOfDevice {
		c.now = c.now.Add(time.Second)
		b.Note(Fault{Kind: UnknownCredential, Party: lamp(1, "a"), Client: fmt.Sprint(n), Unproven: true})
	}
	proven, unproven := 0, 0
	for _, c := range b.Of(lamp(1, "a")) {
		if c.Unproven {
			unproven++
		} else {
			proven++
		}
	}
	if proven != casesOfDevice || unproven != casesUnproven {
		t.Errorf("%d proven and %d unproven cases are kept", proven, unproven)
	}
	b.Note(Fault{Kind: UnknownCredential, Party: lamp(1, "a"), Client: "the device's own"})
	if first := b.Of(lamp(1, "a"))[0]; first.Unproven || first.Times != 1 {
		t.Errorf("a proven fault is counted with unproven ones: %+v", first)
	}
	for n := range subjectsOfSpace {
		b.Note(Fault{Kind: PublishRefused, Party: lamp(n, "a")})
	}
	for n := range subjectsOfSpace {
		b.Note(Fault{Kind: UnknownCredential, Party: lamp(subjectsOfSpace+n, "a"), Unproven: true})
	}
	if len(b.Of(lamp(0, "a"))) == 0 || len(b.Of(lamp(subjectsOfSpace, "a"))) > 0 {
		t.Error("a party lost its room to what is unproven")
	}
}

// The first to make room are parties of which nothing is proven, and of the unproven
// cases of a party those from where most come.
func TestWhatIsUnprovenMakesRoomFirst(t *testing.T) {
	c := newClockwork()
	b := NewCasebook(c.time)
	for n := range subjectsOfSpace {
		b.Note(Fault{Kind: PublishRefused, Party: lamp(n, "a"), Unproven: n%2 == 1})
	}
	for n := range subjectsOfSpace / 2 {
		b.Note(Fault{Kind: PublishRefused, Party: lamp(subjectsOfSpace+n, "a")})
	}
	for n := range subjectsOfSpace {
		if kept := len(b.Of(lamp(n, "a"))) > 0; kept != (n%2 == 0) {
			t.Fatalf("party %d is kept: %v", n, kept)
		}
	}
	b.Note(Fault{Kind: UnknownCredential, Party: lamp(1, "b"), From: "10.0.0.7", Client: "the device", Unproven: true})
	for n := range 10 * casesUnproven {
		b.Note(Fault{Kind: UnknownCredential, Party: lamp(1, "b"), From: "192.0.2.1", Client: fmt.Sprint(n), Unproven: true})
	}
	cases := b.Of(lamp(1, "b"))
	if len(cases) != casesUnproven || cases[len(cases)-1].Client != "the device" {
		t.Errorf("%+v", cases)
	}
}
