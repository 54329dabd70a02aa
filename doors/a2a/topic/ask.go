package topic

import (
	"bytes"
	"crypto/rand"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

// mostItems is the greatest number of unread replies.
const mostItems = 256

// A Reply is an agent's reply to one request of the bridge.
type Reply struct {
	Items chan []byte // of a reply, and of a stream

	topic *Topic
	space protocol.SpaceID
	to    string
	owner protocol.Party
	name  string // its Correlation Data
}

// Card is the card of an agent of a space. It must not be changed.
func (t *Topic) Card(space protocol.SpaceID, id string) (card *Card, ok bool) {
	card, _, ok = t.Cards.Get(key(space, id))
	return card, ok
}

// Ask sends a request of the bridge to an agent that is connected to it. The request is
// for the owner of the agent's card alone, and only the owner's replies are accepted.
// The error is 3001 if that owner has no such agent.
func (t *Topic) Ask(space protocol.SpaceID, id string, owner protocol.Party, body []byte, expiry time.Duration) (*Reply, error) {
	c, ok := t.Card(space, id)
	if !ok || c.Owner != owner {
		return nil, protocol.Errorf(protocol.NotFound, "there is no such agent %q on MQTT", id)
	}
	r := &Reply{Items: make(chan []byte, mostItems), topic: t, space: space, to: id, owner: c.Owner, name: rand.Text()}
	t.mu.Lock()
	t.replies[r.name] = r
	t.mu.Unlock()
	receivers, err := t.Publish(protocol.Only(c.Owner), protocol.Message{
		Topic: Root + requests + "/" + id, QoS: 1, Payload: body, Expiry: expiry, ContentType: protocol.ContentJSON,
		ResponseTopic: Root + replies + "/" + t.own() + "/" + r.name, CorrelationData: []byte(r.name),
	})
	if err == nil && receivers == 0 {
		err = protocol.Errorf(protocol.AgentOffline, "the agent does not listen")
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Close has nothing more taken.
func (r *Reply) Close() {
	r.topic.mu.Lock()
	defer r.topic.mu.Unlock()
	delete(r.topic.replies, r.name)
}

// hear takes a reply to a request of the bridge itself.
func (t *Topic) hear(p *broker.Publication) bool {
	t.mu.Lock()
	r := t.replies[string(p.CorrelationData)]
	t.mu.Unlock()
	if r == nil || p.Topic != Root+replies+"/"+t.own()+"/"+r.name {
		return false
	}
	if who := p.Client.Principal(); p.Client.ID != r.to || who.Home() != r.space || !r.owner.Includes(who.Party()) {
		return false
	}
	select {
	case r.Items <- bytes.Clone(p.Payload):
	default: // replies of a flooding agent are dropped
	}
	return true
}
