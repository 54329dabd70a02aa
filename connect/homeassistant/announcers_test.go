package homeassistant

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/connect/device"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// TestNotesThatNobodyTakesMakeRoom has announcements noted that are never
// delivered, as those of a publisher who retains too much.
func TestNotesThatNobodyTakesMakeRoom(t *testing.T) {
	const most = 2
	a := newAnnouncers(protocol.DefaultSpace, nil, most)
	who := grant.Of(&protocol.Principal{Kind: protocol.KindAgent, ID: "hub", Space: protocol.DefaultSpace})
	for _, topic := range []string{"a", "b", "c"} {
		a.note(topic, note{digestOf([]byte(topic)), who})
	}
	if a.by("c", []byte("c")) == nil {
		t.Error("it is not known who made the latest announcement")
	}
	if len(a.notes) >= most {
		t.Errorf("%d topics are noted, and one of them was delivered", len(a.notes))
	}
}

// anything is the rights of who may do everything.
type anything struct{}

func (anything) MayPublish(grant.Grant, string, bool) error { return nil }
func (anything) MaySubscribe(grant.Grant, string) error     { return nil }

// TestAnAnnouncementIsTakenWhenItsMakerIsTold has an announcement read from what is
// retained before another bridge tells who made it.
func TestAnAnnouncementIsTakenWhenItsMakerIsTold(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	s.Space, s.Topics = string(protocol.DefaultSpace), []string{"#"}
	d := NewDiscovery(s, Options{
		Announcers: recordstest.New[Announcer](), Rights: anything{},
		Fleet: device.Options{Origin: "homeassistant", Space: protocol.DefaultSpace, Root: "aibridge", Log: slog.New(slog.DiscardHandler), Metrics: device.NewMetrics(prometheus.NewRegistry())},
	})
	const topic, plug = "homeassistant/switch/plug/config", `{"name":"Plug","cmd_t":"plug/set"}`
	isKnown := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		_, known := d.known[topic]
		return known
	}
	d.take(device.Announced{Topic: topic, Payload: []byte(plug), Newest: func() bool { return true }})
	if isKnown() {
		t.Fatal("it is taken, and nobody has said who made it")
	}
	hub := grant.Of(&protocol.Principal{Kind: protocol.KindAgent, ID: "hub", Space: protocol.DefaultSpace})
	d.Noted(Note{topic, digestOf([]byte("another")), hub})
	d.Noted(Note{topic, digestOf([]byte(plug)), hub})
	eventually.Holds(t, "the announcement is taken", isKnown)
	if len(d.unnamed) != 0 {
		t.Errorf("it still waits for its maker: %s", d.unnamed)
	}
}
