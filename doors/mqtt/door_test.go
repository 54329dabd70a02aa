package mqtt

import (
	"testing"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A desk takes requests.
type desk struct{ taken int }

func (d *desk) Submit(in commands.Inbound, _ func(*protocol.Response)) { d.taken++ }
func (d *desk) Flush()                                                 {}

// A wall has what is published.
type wall struct{ topics []string }

func (w *wall) Publish(_ protocol.Recipients, m protocol.Message) (int, error) {
	w.topics = append(w.topics, m.Topic)
	return 1, nil
}

// TestNobodyIsAskedAboutAClientsOwnTopic has every Response Topic refused by who is asked.
func TestNobodyIsAskedAboutAClientsOwnTopic(t *testing.T) {
	t.Parallel()
	for topic, own := range map[string]bool{
		"":                                 true,
		"aibridge/client/anna-1/response":  true,
		"aibridge/client/anna-2/response":  false,
		"aibridge/client/anna-1/responses": false,
		"other/client/anna-1/response":     false,
	} {
		d, w := new(desk), new(wall)
		door := New(Options{Router: d, Publisher: w, Topics: protocol.NewTopics(""), MayRespond: func(*protocol.Principal, string) bool { return false }})
		client := broker.NewClient("anna-1", &protocol.Principal{ID: "anna"})
		door.Request(&broker.Publication{Client: client, Message: protocol.Message{ResponseTopic: topic, Payload: []byte(`{}`)}})
		if own && (d.taken != 1 || len(w.topics) != 0) || !own && (d.taken != 0 || len(w.topics) != 1 || w.topics[0] != "aibridge/client/anna-1/response") {
			t.Errorf("%q: %d requests taken, refused on %q", topic, d.taken, w.topics)
		}
	}
}
