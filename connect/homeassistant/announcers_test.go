package homeassistant

import (
	"testing"

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
