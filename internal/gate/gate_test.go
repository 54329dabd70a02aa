package gate

import (
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/protocol"
)

// A yard is a gate, and what has come through it.
type yard struct {
	*Gate
	t   *testing.T
	cut []string // who was cut off
}

func newYard(t *testing.T, l Limits) *yard {
	t.Helper()
	return &yard{Gate: New(l, clock.New(), nil), t: t}
}

func at(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }

// come has somebody come, who is in or not as wanted.
func (y *yard) come(name, ip string, want bool) *Visit {
	y.t.Helper()
	v, ok := y.Enter(at(ip))
	if ok != want {
		y.t.Fatalf("%s is let in: %v, want %v", name, ok, want)
	}
	v.CutBy(func() {
		y.cut = append(y.cut, name)
		v.Leave()
	})
	return v
}

func (y *yard) expectCut(want ...string) {
	y.t.Helper()
	if !slices.Equal(y.cut, want) {
		y.t.Errorf("%q were cut off, want %q", y.cut, want)
	}
}

func agent(id string) *protocol.Principal {
	return &protocol.Principal{Kind: protocol.KindAgent, ID: id, Roles: []string{protocol.RoleEndAgent}}
}

func administrator() *protocol.Principal {
	return &protocol.Principal{Kind: protocol.KindOperator, ID: "administrator", Roles: []string{protocol.RoleAdministrator}}
}

func TestWhoHasSaidNothingForLongestMakesRoom(t *testing.T) {
	y := newYard(t, Limits{Connections: 100, Strangers: 3, PerAddress: 2})
	y.come("a1", "10.0.0.1", true)
	a2 := y.come("a2", "10.0.0.1", true)
	y.come("a3", "10.0.0.1", false) // the others came just now
	y.come("b", "10.0.0.2", true)
	y.come("c", "10.0.0.3", false) // there are three
	y.clock.Advance(3 * time.Second)
	y.come("a4", "10.0.0.1", true)
	y.expectCut("a1")
	y.come("c", "10.0.0.3", true)
	y.expectCut("a1", "a2")
	if err := a2.Known(agent("late")); err != nil {
		t.Error(err)
	}
	y.come("d", "10.0.0.4", true)
	y.expectCut("a1", "a2", "b")
	y.come("e", "10.0.0.5", false)
}

func TestWhoIsKnownIsNotAStranger(t *testing.T) {
	y := newYard(t, Limits{Connections: 100, Strangers: 1, PerAddress: 1})
	for i := range 10 {
		v := y.come(fmt.Sprint(i), "10.0.0.1", true)
		if err := v.Known(agent("a")); err != nil {
			t.Fatal(err)
		}
		_ = v.Known(agent("b")) // what was said first counts
	}
	y.clock.Advance(time.Hour)
	y.come("stranger", "10.0.0.1", true)
	y.expectCut()
	if n := y.places.Used(); n != 10 {
		t.Errorf("%d places are taken, want 10", n)
	}
}

func TestAnAddressOfIPv6IsItsNetwork(t *testing.T) {
	y := newYard(t, Limits{Connections: 100, Strangers: 9, PerAddress: 1})
	y.come("a", "2001:db8::1", true)
	y.come("b", "2001:db8::2", false)
	y.come("c", "2001:db8:0:1::1", true)
	y.come("d", "::ffff:10.0.0.1", true)
	y.come("e", "10.0.0.1", false)
}

// Whatever a principal and its space take, an administrator has a place.
func TestNobodyTakesAllPlaces(t *testing.T) {
	y := newYard(t, Limits{Connections: 64 + 4, Strangers: 4, PerAddress: 4})
	known := func(who *protocol.Principal) bool {
		v := y.come("v", "10.0.0.1", true)
		err := v.Known(who)
		if err != nil {
			if protocol.CodeOf(err) != protocol.Busy {
				t.Errorf("%v, want 4008", err)
			}
			v.Leave()
		}
		return err == nil
	}
	take := func(who *protocol.Principal) (n int) {
		for known(who) {
			n++
		}
		return n
	}
	if n := take(agent("a")); n != 16 {
		t.Errorf("one has %d places, want a quarter", n)
	}
	for _, space := range []protocol.SpaceID{"", "house", "barn"} {
		for i := range 4 {
			who := agent(fmt.Sprint("b", i))
			who.Space = space
			take(who)
		}
	}
	if n := y.places.Used(); n != 60 {
		t.Errorf("%d places are taken, want all but what is kept", n)
	}
	if n := take(administrator()); n != 4 {
		t.Errorf("an administrator has %d places, want what was kept", n)
	}
}

func TestPlacesAreGivenBackOnce(t *testing.T) {
	y := newYard(t, Limits{Connections: 20, Strangers: 10, PerAddress: 10})
	a, b := y.come("a", "10.0.0.1", true), y.come("b", "10.0.0.1", true)
	if err := a.Known(agent("a")); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		a.Leave()
		b.Leave()
	}
	if used, strangers := y.places.Used(), y.countStrangers(); used != 0 || strangers != 0 || len(y.from) != 0 {
		t.Errorf("everybody has left, and there are %d known, %d strangers, %d addresses", used, strangers, len(y.from))
	}
	var nobody *Visit // of a connection that is not counted
	nobody.CutBy(nil)
	nobody.Leave()
	if err := nobody.Known(agent("a")); err != nil || nobody.Succeed(a) {
		t.Errorf("who is not counted is refused: %v", err)
	}
}

// Who takes a session over has the place of the connection that is on its way
// out, which may be cut off from then on.
func TestASuccessorHasThePlace(t *testing.T) {
	y := newYard(t, Limits{Connections: 4 + 1, Strangers: 1, PerAddress: 1})
	who := agent("a")
	for i := range 4 {
		if err := y.come(fmt.Sprint(i), "10.0.0.1", true).Known(who); err != nil {
			t.Fatal(err)
		}
	}
	v := y.come("one too many", "10.0.0.1", true)
	if err := v.Known(who); err == nil {
		t.Fatal("there was a fifth place")
	}
	v.Leave()
	old := y.come("old", "10.0.0.1", true)
	next := &Visit{gate: y.Gate}
	if next.Succeed(old) || old.Succeed(nil) {
		t.Error("a stranger has no place to leave")
	}
	old.Leave()

	y = newYard(t, Limits{Connections: 4 + 2, Strangers: 2, PerAddress: 2})
	first := y.come("first", "10.0.0.1", true)
	if err := first.Known(who); err != nil {
		t.Fatal(err)
	}
	second := y.come("second", "10.0.0.1", true)
	if !second.Succeed(first) {
		t.Fatal("the place is not passed on")
	}
	if n := y.places.Used(); n != 1 {
		t.Errorf("%d places are taken, want 1", n)
	}
	y.clock.Advance(time.Minute)
	y.come("c", "10.0.0.1", true)
	y.come("d", "10.0.0.1", true)
	y.expectCut("first")
	second.Leave()
	if n := y.places.Used(); n != 0 {
		t.Errorf("%d places are taken, want none", n)
	}
}

func TestStrangersGoWhenDescriptorsHaveRunOut(t *testing.T) {
	y := newYard(t, Limits{Connections: 1000, Strangers: 500, PerAddress: 500})
	known := y.come("known", "10.0.0.1", true)
	if err := known.Known(agent("a")); err != nil {
		t.Fatal(err)
	}
	for i := range relief + 5 {
		y.come(fmt.Sprint(i), "10.0.0.1", true)
	}
	y.Relieve()
	if len(y.cut) != relief || y.cut[0] != "0" || y.countStrangers() != 5 {
		t.Errorf("%d were cut off, %d are left", len(y.cut), y.countStrangers())
	}
	y.Relieve()
	y.Relieve()
	if len(y.cut) != relief+5 || slices.Contains(y.cut, "known") {
		t.Errorf("cut off: %q", y.cut)
	}
}

func TestLimitsGoByDescriptors(t *testing.T) {
	for descriptors, want := range map[int]Limits{
		256:       {Connections: 64, Strangers: 16, PerAddress: 8},
		1024:      {Connections: 768, Strangers: 192, PerAddress: 96},
		1 << 20:   {Connections: 786432, Strangers: 4096, PerAddress: 2048},
		unlimited: {Connections: 1 << 20, Strangers: 4096, PerAddress: 2048},
	} {
		if got := (Limits{}).Complete(descriptors); got != want {
			t.Errorf("%d descriptors: %+v, want %+v", descriptors, got, want)
		}
	}
	set := Limits{Connections: 100, Strangers: 30, PerAddress: 3}
	if got := set.Complete(1024); got != set {
		t.Errorf("what is set: %+v", got)
	}
	if Descriptors() <= 0 {
		t.Error("the process may have no descriptors")
	}
}

func TestAListenersConnectionsLeaveWhenTheyAreClosed(t *testing.T) {
	y := newYard(t, Limits{Connections: 10, Strangers: 2, PerAddress: 2})
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := y.Listener(inner)
	defer l.Close()
	accept := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		s, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first, second := accept(), accept()
	if err := VisitOf(second).Known(agent("a")); err != nil || y.countStrangers() != 1 {
		t.Errorf("%v, and %d strangers", err, y.countStrangers())
	}
	_ = first.Close()
	_ = first.Close()
	if y.countStrangers() != 0 {
		t.Error("a closed connection is counted")
	}
	_ = second.Close()
	if y.places.Used() != 0 {
		t.Error("a closed connection has its place")
	}
}

func TestAnAddressHasSoManyConnectionsAndNoMore(t *testing.T) {
	y := newYard(t, Limits{Connections: 100, Strangers: 50, PerAddress: 50, AllPerAddress: 2})
	known := y.come("known", "10.0.0.1", true)
	if err := known.Known(agent("lamp")); err != nil {
		t.Fatal(err)
	}
	y.come("stranger", "10.0.0.1", true)
	y.come("too many", "10.0.0.1", false)
	y.come("elsewhere", "10.0.0.2", true)
	known.Leave()
	known.Leave() // once or more
	y.come("next", "10.0.0.1", true)
	y.come("too many again", "10.0.0.1", false)
}
