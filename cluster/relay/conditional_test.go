package relay

import (
	"fmt"
	"slices"
	"testing"

	"github.com/eclipse/paho.golang/paho"
)

// saysOf publishes with QoS 1 and a user property, and returns the reason code.
func (d *device) saysOf(kind, topic, text string) byte {
	d.t.Helper()
	p := &paho.Publish{Topic: topic, Payload: []byte(text), QoS: 1, Properties: &paho.PublishProperties{}}
	p.Properties.User.Add("kind", kind)
	answer, err := d.Publish(d.context(), p)
	if answer == nil {
		d.t.Fatal(err)
	}
	return answer.ReasonCode
}

func TestConditionsHoldAcrossBridges(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	speaker := c.connect("a", "speaker", "home")
	hot, all := c.connect("b", "hot", "home"), c.connect("c", "all", "home")
	hot.hears("work?kind=hot", 1)
	all.hears("work", 1)
	for i, kind := range []string{"cold", "hot", "cold", "hot"} {
		if reason := speaker.saysOf(kind, "work", fmt.Sprint(i)); reason != 0 {
			t.Errorf("%d was answered by %#x", i, reason)
		}
	}
	all.expect("work=0@1", "work=1@1", "work=2@1", "work=3@1")
	hot.expect("work=1@1", "work=3@1")
	if reason := speaker.saysOf("cold", "elsewhere", "-"); reason != 0x10 {
		t.Errorf("what nobody hears was answered by %#x", reason)
	}
}

func TestAGroupWithAConditionHasMembersAtSeveralBridges(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	var hot []*device
	for _, at := range []string{"a", "b", "c"} {
		d := c.connect(at, "hot"+at, "home")
		d.hears("$share/g/work?kind=hot", 1)
		d.hears("end", 1)
		hot = append(hot, d)
	}
	cold := c.connect("b", "cold", "home")
	cold.hears("$share/g/work?kind=cold", 1)
	const rounds = 12
	var want []string
	for i := range rounds {
		for _, at := range []string{"a", "b", "c"} {
			speaker := c.connect(at, fmt.Sprint("speaker", at, i), "home")
			for _, kind := range []string{"hot", "cold", "tepid"} {
				name := fmt.Sprint(kind, at, i)
				reason, nobody := speaker.saysOf(kind, "work", name), byte(0)
				if kind == "tepid" {
					nobody = 0x10
				}
				if reason != nobody {
					t.Errorf("%s was answered by %#x", name, reason)
				}
				if kind == "hot" {
					want = append(want, "work="+name+"@1")
				}
			}
		}
	}
	for range 3 * rounds {
		if got := cold.next(); got[:len("work=cold")] != "work=cold" {
			t.Errorf("the group for cold ones got %s", got)
		}
	}
	var got []string
	c.connect("a", "last", "home").says("end", "", 1)
	for _, d := range hot {
		for m := d.next(); m != "end=@1"; m = d.next() {
			got = append(got, m)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the group for hot ones got %v", got)
	}
}

// What a member leaves behind goes to one with the same condition at another bridge.
func TestWhatAMemberWithAConditionLeavesGoesElsewhere(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	leaving, staying := c.connect("b", "leaving", "home"), c.connect("c", "staying", "home")
	leaving.hears("$share/g/work?kind=hot", 1)
	staying.hears("$share/g/work?kind=hot", 1)
	speaker := c.connect("a", "speaker", "home")
	c.deafen("a", true)
	if _, err := leaving.Unsubscribe(leaving.context(), &paho.Unsubscribe{Topics: []string{"$share/g/work?kind=hot"}}); err != nil {
		t.Fatal(err)
	}
	answers := make(chan byte, 2)
	for i := range 2 {
		go func() { answers <- speaker.saysOf("hot", "work", fmt.Sprint(i)) }()
	}
	c.deafen("a", false)
	got := []string{staying.next(), staying.next()}
	slices.Sort(got)
	if !slices.Equal(got, []string{"work=0@1", "work=1@1"}) {
		t.Errorf("the member that stayed got %v", got)
	}
	for range 2 {
		if reason := <-answers; reason != 0 {
			t.Errorf("answered by %#x", reason)
		}
	}
}

// A session brings its conditions along when it moves.
func TestConditionsMoveWithTheirSession(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	w := wander(c, "work?kind=hot")
	speaker := c.connect("a", "speaker", "home")
	speaker.saysOf("cold", "work", "1")
	speaker.saysOf("hot", "work", "2")
	d := w.arrive(w.cut())
	speaker.saysOf("cold", "work", "3")
	speaker.saysOf("hot", "work", "4")
	d.expect("work=2@1", "work=4@1")
}
