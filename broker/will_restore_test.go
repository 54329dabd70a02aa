package broker

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
)

// TestWillsOfCleanSessionsOutliveTheProcess kills a broker with clients whose
// sessions end with their connections: whoever restores the journal publishes the
// Wills of those that were connected, once. [MQTT-3.1.2-8]
func TestWillsOfCleanSessionsOutliveTheProcess(t *testing.T) {
	journal := &MemoryJournal{}
	stored := func() []string {
		left := journal.Copy()
		return slices.DeleteFunc(slices.Sorted(maps.Keys(left.keyed)), func(key string) bool { return !strings.HasPrefix(key, keyWill) })
	}
	on := func(j *MemoryJournal) func(*Options) { return func(o *Options) { o.Journal = j } }
	will := func(text string) func(*packet.Connect) {
		return func(c *packet.Connect) {
			c.HasWill, c.Will.Topic, c.Will.Payload, c.Will.QoS = true, []byte("will"), []byte(text), 2
		}
	}
	n := newNode(t, 1, on(journal))
	n.absent("heir", "will")
	listener := n.connect(5, "listener", kept)
	listener.subscribe("will", 2)
	n.connect(5, "connected", will("killed"))
	n.connect(4, "old", will("killed too"))
	n.leave(n.connect(5, "polite", will("polite")), "polite")
	n.cut(n.connect(5, "lost", will("lost")), "lost")
	listener.take("lost")
	n.connect(5, "again", will("before"))
	n.connect(5, "again", will("after"))
	listener.take("before")
	n.connect(5, "none")
	n.leave(listener, "listener")
	want := []string{keyOfWill(home("again"), 0), keyOfWill(home("connected"), 0), keyOfWill(home("old"), 0)}
	eventually.Holds(t, "the journal has the Wills of who is connected", func() bool {
		var latest storedLastWill
		_ = json.Unmarshal(journal.Copy().keyed[keyOfWill(home("again"), 0)], &latest)
		return strings.Contains(string(latest.Will.Message), "after") && slices.Equal(stored(), want)
	}, func() any { return stored() })

	journal = journal.Copy() // the process is killed
	n = newNode(t, 1, on(journal))
	heir := n.connect(5, "heir", kept)
	var got []string
	for range 2 + len(want) {
		m := heir.receive()
		got = append(got, string(m.Payload))
		heir.acknowledge(m)
	}
	if slices.Sort(got); !slices.Equal(got, []string{"after", "before", "killed", "killed too", "lost"}) {
		t.Errorf("published %q", got)
	}
	n.leave(heir, "heir")
	eventually.Holds(t, "the journal has no Will", func() bool { return len(stored()) == 0 }, func() any { return stored() })
}
