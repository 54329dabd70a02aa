package device

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/aibridge/aibridge/connect/template"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// everything allows everything.
type everything struct{}

func (everything) MayPublish(grant.Grant, string, bool) error { return nil }
func (everything) MaySubscribe(grant.Grant, string) error     { return nil }

func newTestFleet() *Fleet {
	return NewFleet(Options{Origin: "test", Space: "default", Root: "aibridge", Rights: everything{}, Metrics: NewMetrics(prometheus.NewRegistry())})
}

func by(id string) *grant.Grant {
	return &grant.Grant{ID: id, Kind: protocol.KindAgent, Space: "default"}
}

// reads is a device with readings of one topic by one template.
func reads(id, topic string, by *grant.Grant, n int, source string) *Device {
	d := &Device{Agent: protocol.AgentID(id), Digest: id, By: by, Skills: []Skill{{ID: protocol.SkillID(id)}}}
	for i := range n {
		d.Skills[0].State = append(d.Skills[0].State, Reading{Name: fmt.Sprint(i), Topic: topic, Read: Extraction{Template: template.Must(source)}})
	}
	return d
}

func (f *Fleet) knows(d *Device, name string) (value any, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.members[d.Agent].readings[reading{d.Skills[0].ID, name}]
	return v.value, ok
}

func message(topic, payload string) received {
	return received{topic: topic, payload: []byte(payload), at: time.Now()}
}

// standStill has the lane of a party read nothing until it is let go.
func (f *Fleet) standStill(party string) (goOn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &lane{boxes: map[string][]*letter{}, busy: true}
	f.lanes[party] = l
	return func() { f.readAll(party, l) }
}

func TestAPartyThatTakesForEverDelaysNoOther(t *testing.T) {
	t.Parallel()
	f := newTestFleet()
	hostile, good := reads("hostile", "shared", by("evil"), 1, "{{ value }}"), reads("good", "shared", by("good"), 1, "{{ value }}")
	f.Put(hostile)
	f.Put(good)
	goOn := f.standStill(partyOf(hostile.By))
	f.take(message("shared", "on"))
	eventually.Holds(t, "the other has heard it", func() bool { v, _ := f.knows(good, "0"); return v == "on" })
	if _, ok := f.knows(hostile, "0"); ok {
		t.Error("the lane that stands still was read")
	}
	goOn()
	if v, _ := f.knows(hostile, "0"); v != "on" {
		t.Errorf("%v", v)
	}
}

func TestWhatWaitsIsBoundedByTopicAndLane(t *testing.T) {
	t.Parallel()
	f := newTestFleet()
	flooded, quiet := reads("flooded", "flood", by("z"), 1, "{{ value }}"), reads("quiet", "calm", by("z"), 1, "{{ value }}")
	f.Put(flooded)
	f.Put(quiet)
	goOn := f.standStill(partyOf(by("z")))
	f.take(message("calm", "said once"))
	for i := range 1000 {
		f.take(message("flood", fmt.Sprint(i)))
	}
	if n := len(f.lanes[partyOf(by("z"))].boxes["flood"]); n != maxWaiting {
		t.Errorf("%d messages wait, of at most %d", n, maxWaiting)
	}
	if lost := testutil.ToFloat64(f.Metrics.gone.WithLabelValues("test")); lost != 1000-maxWaiting {
		t.Errorf("%v messages lost", lost)
	}
	goOn()
	if v, _ := f.knows(flooded, "0"); v != "999" {
		t.Errorf("the newest is not known: %v", v)
	}
	if v, _ := f.knows(quiet, "0"); v != "said once" {
		t.Errorf("the other topic lost its message: %v", v)
	}

	goOn = f.standStill("")
	for i := range 1000 { // of topics that have no bound together
		d := reads(fmt.Sprint("d", i), fmt.Sprint("t", i), nil, 1, "{{ value }}")
		f.Put(d)
		f.take(message(fmt.Sprint("t", i), strings.Repeat("x", maxPayload)))
	}
	if l := f.lanes[""]; l.bytes > maxLaneBytes || len(l.turns) != len(l.boxes) {
		t.Errorf("%d bytes wait, %d turns of %d topics", l.bytes, len(l.turns), len(l.boxes))
	}
	goOn()
}

// TestOneMessageTakesSoManyStepsAndNoMore counts what is read of a message that
// takes about 20 000 steps for each of a thousand readings.
func TestOneMessageTakesSoManyStepsAndNoMore(t *testing.T) {
	t.Parallel()
	f := newTestFleet()
	costly := "{% set v = value %}" + strings.Repeat("{% set v = v | upper | lower %}", 9) + "{{ v }}"
	d := reads("hostile", "t", by("evil"), 1000, costly)
	f.Put(d)
	l := &letter{received: message("t", strings.Repeat("x", maxPayload))}
	f.mu.Lock()
	listeners := f.listeners(partyOf(d.By), l)
	f.mu.Unlock()
	heard := f.read(l, listeners)
	made, each := len(heard[0].state), 9*3*(maxPayload/64)
	if made == 0 || made*each > maxSteps {
		t.Errorf("%d readings were made", made)
	}
	if made+len(heard[0].unread) != 1000 {
		t.Errorf("%d and %d readings of 1000", made, len(heard[0].unread))
	}
}

func TestALongMessageIsNotRead(t *testing.T) {
	t.Parallel()
	f := newTestFleet()
	d := reads("d", "t", nil, 1, "{{ value }}")
	f.Put(d)
	f.take(message("t", strings.Repeat("x", maxPayload+1)))
	if len(f.lanes) > 0 || testutil.ToFloat64(f.Metrics.bad.WithLabelValues("test")) != 1 {
		t.Error("it waits to be read")
	}
}

// TestTheNewestOfAWatchedTopicIsTaken has another party announce on the same
// topic while the first is still being read.
func TestTheNewestOfAWatchedTopicIsTaken(t *testing.T) {
	t.Parallel()
	f := newTestFleet()
	reading, goOn, taken := make(chan struct{}), make(chan struct{}), make(chan string, 3)
	f.Watch = []string{"ha/+"}
	f.From = func(_ string, payload []byte) *grant.Grant { return by(string(payload)) }
	f.Take = func(a Announced) {
		if string(a.Payload) == "slow" {
			close(reading)
			<-goOn
		}
		if a.Newest() {
			taken <- string(a.Payload)
		}
	}
	f.take(message("ha/x", "slow"))
	<-reading
	f.take(message("ha/x", "fast"))
	f.allCame()
	if got := <-taken; got != "fast" {
		t.Error(got)
	}
	f.mu.Lock()
	sweeping := f.sweep
	f.mu.Unlock()
	if sweeping {
		t.Error("what came is not all taken yet")
	}
	close(goOn)
	f.reading.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.sweep || f.unread != 0 || len(f.newest) != 0 || len(taken) != 0 {
		t.Errorf("sweep %v, %d unread, %d newest, %d taken", f.sweep, f.unread, len(f.newest), len(taken))
	}
}

// TestAMessageIsTakenAgainWhenItsMakerIsKnown has a message taken before it is known
// whom it is from, and again, unless a newer one has come.
func TestAMessageIsTakenAgainWhenItsMakerIsKnown(t *testing.T) {
	f := newTestFleet()
	maker := by("hub")
	taken := make(chan Announced, 8)
	f.Watch, f.From, f.Take = []string{"#"}, func(string, []byte) *grant.Grant { return nil }, func(a Announced) { taken <- a }
	f.take(message("a", "1"))
	f.reading.Wait()
	if a := <-taken; a.From != nil {
		t.Errorf("it is from %v", a.From)
	}
	f.Again("a", []byte("1"), maker)
	f.reading.Wait()
	if a := <-taken; a.From != maker || string(a.Payload) != "1" || a.Topic != "a" {
		t.Errorf("taken again is %+v", a)
	}
	goOn := f.standStill(partyOf(nil))
	f.take(message("a", "2"))
	f.Again("a", []byte("1"), maker)
	goOn()
	f.reading.Wait()
	close(taken)
	for a := range taken {
		if string(a.Payload) != "2" {
			t.Errorf("taken after a newer one is %s", a.Payload)
		}
	}
}
