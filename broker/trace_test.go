package broker

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
)

const soon = 5 * time.Minute

// told is a trace as lines.
func told(t *testing.T, n *node, id string) []string {
	t.Helper()
	tr, ok := n.Trace(home(id), 0, maxHeadlines)
	if !ok {
		t.Fatal("there is no trace")
	}
	var lines []string
	for i, h := range tr.Lines {
		if h.N != uint64(i+1) || h.At.IsZero() {
			t.Errorf("line %d is %+v", i, h)
		}
		way := "out"
		if h.Inbound {
			way = "in"
		}
		lines = append(lines, strings.Join(strings.Fields(fmt.Sprint(way, " ", h.Type, " ", h.Topic, " ", strings.Join(h.Filters, ","), " ", strings.Join(h.Reasons, ","))), " "))
	}
	return lines
}

func TestATraceTellsOfThePacketsOfOneClient(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		p, other := n.connect(5, "a", property(packet.TopicAliasMaximum, 10)), n.connect(5, "b")
		if found, room := n.StartTrace(home("a"), time.Now().Add(soon)); !found || !room {
			t.Fatal(found, room)
		}
		p.subscribe("room/#", 1)
		other.publish(text("room/light", "a secret"))
		p.expect(packet.PUBLISH)
		other.publish(text("room/light", "a secret"))
		p.expect(packet.PUBLISH)
		if r := p.publish(publish{Topic: []byte("x/y"), QoS: 1, PacketID: 7, Payload: []byte("a secret")}); r != packet.NoMatchingSubscribers {
			t.Error(r)
		}
		want := []string{
			"in SUBSCRIBE room/#", "out SUBACK QoS 1", "out PUBLISH room/light", "out PUBLISH room/light", "in PUBLISH x/y", "out PUBACK no matching subscribers",
		}
		if got := told(t, n, "a"); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%q", got)
		}
		tr, _ := n.Trace(home("a"), 4, 1)
		if len(tr.Lines) != 1 || tr.Lines[0].N != 5 || tr.Lines[0].PacketID != 7 || tr.Lines[0].QoS != 1 || tr.Lines[0].Size == 0 {
			t.Errorf("%+v", tr)
		}
		for _, after := range []uint64{6, 7, math.MaxUint64} {
			if tr, ok := n.Trace(home("a"), after, 10); !ok || len(tr.Lines) != 0 || tr.Missed != 0 {
				t.Errorf("after %d there is %+v", after, tr)
			}
		}
		if text := fmt.Sprintf("%+v", tr); strings.Contains(text, "secret") {
			t.Errorf("the payload is in %s", text)
		}
		if _, ok := n.Trace(home("b"), 0, 1); ok {
			t.Error("another client is traced")
		}
		if !n.StopTrace(home("a")) || n.StopTrace(home("a")) {
			t.Error("it does not stop once")
		}
		if found, _ := n.StartTrace(home("nobody"), time.Now().Add(soon)); found {
			t.Error("nobody is traced")
		}
	})
}

func TestATraceGoesOnWhenTheClientComesBack(t *testing.T) {
	n := newNode(t, 1)
	p := n.connect(5, "a", kept)
	n.StartTrace(home("a"), time.Now().Add(soon))
	n.Disconnect(home("a"), byte(packet.AdministrativeAction), "")
	p.ended()
	n.gone("a")
	n.connect(4, "a", kept, func(c *packet.Connect) { c.Password = []byte("a secret") })
	want := "out DISCONNECT administrative action\nin CONNECT\nout CONNACK success"
	if got := told(t, n, "a"); strings.Join(got, "\n") != want {
		t.Errorf("%q", got)
	}
}

// TestAStoppedTraceDoesNotGoOnWithAClientThatIsConnecting stops the trace between the
// steps of a connection: it was looked up, and is not noted yet.
func TestAStoppedTraceDoesNotGoOnWithAClientThatIsConnecting(t *testing.T) {
	n := newNode(t, 1)
	n.connect(5, "a")
	n.StartTrace(home("a"), time.Now().Add(soon))
	found := n.traces.running(home("a"), time.Now())
	if found == nil || !n.StopTrace(home("a")) {
		t.Fatal("there is no trace")
	}
	c := n.session(home("a")).conn.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteEntry(found, nil)
	if c.traced() != nil {
		t.Error("the packets of the client are noted, and nobody can stop it")
	}
}

func TestATraceEndsAndIsBounded(t *testing.T) {
	n := newNode(t, 1)
	p := n.connect(5, "a")
	n.StartTrace(home("a"), time.Now())
	p.subscribe("x", 0)
	if got := told(t, n, "a"); len(got) != 0 {
		t.Errorf("%q is noted of a trace that is over", got)
	}
	n.StartTrace(home("a"), time.Now().Add(soon))
	for range maxHeadlines {
		p.send([]byte{0xC0, 0})
		p.expect(packet.PINGRESP)
	}
	tr, _ := n.Trace(home("a"), 0, 2*maxHeadlines)
	if len(tr.Lines) != maxHeadlines || tr.Missed != maxHeadlines || tr.Lines[0].N != maxHeadlines+1 {
		t.Errorf("%d lines from %d, %d missed", len(tr.Lines), tr.Lines[0].N, tr.Missed)
	}
	for i := range maxTraces {
		id := fmt.Sprint("c", i)
		n.connect(5, id)
		if _, room := n.StartTrace(home(id), time.Now().Add(soon)); room != (i < maxTraces-1) {
			t.Errorf("trace %d: room %v", i, room)
		}
	}
	n.StartTrace(home("c0"), time.Now()) // is over
	if _, room := n.StartTrace(home(fmt.Sprint("c", maxTraces-1)), time.Now().Add(soon)); !room {
		t.Error("a trace that is over makes no room")
	}
}

func TestHeadlinesOfBrokenPacketsAreShort(t *testing.T) {
	for _, body := range []string{"", "\x00", "\x00\xffx", "\x00\x01a", strings.Repeat("\xff", 40)} {
		for typ := range byte(16) {
			for _, version := range []byte{packet.V311, packet.V5} {
				h := headline(version, packet.Header{First: typ<<4 | 2, Remaining: len(body)}, len(body)+2, []byte(body), func(uint16) string { return "" })
				if h.Type == "" || h.Size != len(body)+2 {
					t.Errorf("%+v", h)
				}
			}
		}
	}
	if got := cutTopic([]byte(strings.Repeat("ä", maxHeadTopic))); got != strings.Repeat("ä", maxHeadTopic/2)+"…" {
		t.Errorf("%d bytes", len(got))
	}
}
