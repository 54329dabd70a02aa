package broker

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// noPeers are the other bridges of a cluster in which there are none.
type noPeers struct{}

func (noPeers) Subscribed(Interest)                           {}
func (noPeers) Unsubscribed(Interest)                         {}
func (noPeers) Announced(a Answerer)                          { a.Answer(Taken) }
func (noPeers) Group(protocol.SpaceID, string, string) uint64 { return 0 }
func (noPeers) Away(string, bool, ...protocol.SpaceID) *Away  { return nil }
func (noPeers) All() []Peer                                   { return nil }
func (noPeers) Self() Process                                 { return Process{"here", 1} }
func (noPeers) Epoch() uint64                                 { return 0 }
func (noPeers) Flush()                                        {}

// TestAnAdopterPublishesAWillWhileItsJournalIsToBeWritten has the journal wait for its
// readers just when a Will of an adopted session is shown to handlers.
func TestAnAdopterPublishesAWillWhileItsJournalIsToBeWritten(t *testing.T) {
	n := newNode(t, 1, func(o *Options) { o.Journal, o.Peers = new(MemoryJournal), noPeers{} })
	writing := make(chan struct{})
	n.Handle("wills", func(*Publication) {
		go func() {
			n.journal.hold.Lock()
			n.journal.hold.Unlock()
			close(writing)
		}()
		eventually.Holds(t, "the writer waits, or is done", func() bool {
			select {
			case <-writing:
				return true
			default:
			}
			free := n.journal.hold.TryRLock()
			if free {
				n.journal.hold.RUnlock()
			}
			return !free
		})
	})
	value, err := json.Marshal(storedLastWill{
		Principal: &protocol.Principal{ID: "someone", Space: protocol.DefaultSpace},
		Will:      storedWill{Message: appendMessage(nil, &message{topic: "wills", from: "lost", qos: 1}, 0), Since: 7},
	})
	if err != nil {
		t.Fatal(err)
	}
	left := new(MemoryJournal)
	if _, err := left.Write(context.Background(), []KeyedValue{{keyOfWill(home("lost"), 7), value}}, nil); err != nil {
		t.Fatal(err)
	}
	n.PublishWills()
	a := n.adopts(t, left)
	eventually.Holds(t, "the Will is published and forgotten", a.Vacant)
}
