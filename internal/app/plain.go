package app

import (
	"encoding/json"
	"sync/atomic"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/cluster/relay"
	"github.com/aibridge/aibridge/connect/homeassistant"
	"github.com/aibridge/aibridge/connect/homeassistant/entities"
	"github.com/aibridge/aibridge/protocol/grant"
)

// plain lets programs that know nothing of the bridge, such as Home Assistant,
// connect to any bridge of a cluster: their publications reach the oldest bridge,
// which works for them, together with the name of the publisher. The bridge that
// they are connected to vouches for that.
type plain struct {
	s         *state
	voice     *relay.Voice                            // nil for a bridge that works alone
	discovery atomic.Pointer[homeassistant.Discovery] // nil if nothing is discovered, or not yet
	entities  atomic.Pointer[entities.Publisher]      // nil if nothing is shown, or not yet
}

// plainPart is its number among the parts of bridges that speak with each other.
const plainPart = 5

// plainNews is a message between bridges: exactly one of its fields.
type plainNews struct {
	Note    *homeassistant.Note `json:"note,omitempty"`
	Command *plainCommand       `json:"command,omitempty"`
	Status  *plainCommand       `json:"status,omitempty"`
}

// A plainCommand is a publication of such a program.
type plainCommand struct {
	By      grant.Grant `json:"by"`
	Client  string      `json:"client,omitempty"`
	Topic   string      `json:"topic,omitempty"`
	Payload []byte      `json:"payload"`
}

// newPlain makes the part, before the relay starts.
func newPlain(s *state, shared *relaying) *plain {
	p := &plain{s: s}
	if shared != nil {
		p.voice = shared.Join(plainPart, p)
	}
	return p
}

// announces notes the publisher of a device's announcement, here and at the other
// bridges: any of them may be the oldest by the time that the message is read. A
// bridge hears of it before later publications.
func (p *plain) announces(m *broker.Publication) {
	note, ok := p.discovery.Load().Publishes(m.Client.Principal(), m.Topic, m.Payload)
	if !ok || p.voice == nil {
		return
	}
	self := p.s.Members.Self()
	for _, other := range p.s.Members.Members() {
		if other.Node != self && takesRelayed(other) {
			p.say(relay.Node(other.Node), &plainNews{Note: &note})
		}
	}
}

// commands has a command of Home Assistant done by the bridge that shows the entities.
func (p *plain) commands(m *broker.Publication) {
	if to, elsewhere := p.s.carrier(""); elsewhere && p.voice != nil {
		p.say(relay.Node(to), &plainNews{Command: published(m)})
		return
	}
	p.entities.Load().Take(entities.Command{Who: m.Client.Principal(), Client: m.Client.ID, Topic: m.Topic, Payload: m.Payload})
}

// says passes Home Assistant's own status on to the bridge that shows the entities.
func (p *plain) says(m *broker.Publication) {
	if to, elsewhere := p.s.carrier(""); elsewhere && p.voice != nil {
		p.say(relay.Node(to), &plainNews{Status: published(m)})
		return
	}
	p.entities.Load().Says(m.Client.Principal(), m.Payload)
}

func published(m *broker.Publication) *plainCommand {
	return &plainCommand{By: grant.Of(m.Client.Principal()), Client: m.Client.ID, Topic: m.Topic, Payload: m.Payload}
}

func (p *plain) say(to relay.Node, news *plainNews) {
	body, err := json.Marshal(news)
	if err != nil || !p.voice.Say(to, body) {
		p.s.log.Warn("another bridge does not hear what a plain device or Home Assistant has published", "bridge", to.ID, "error", err)
	}
}

// Said implements [relay.Part].
func (p *plain) Said(from relay.Node, body []byte) {
	var news plainNews
	if err := json.Unmarshal(body, &news); err != nil {
		p.s.log.Warn("what another bridge says cannot be read", "bridge", from.ID, "error", err)
		return
	}
	discovery, shown := p.discovery.Load(), p.entities.Load()
	switch {
	case news.Note != nil && discovery != nil:
		discovery.Noted(*news.Note)
	case shown == nil:
	case news.Command != nil:
		p.heard(shown, news.Command)
	case news.Status != nil:
		if who, err := p.s.credentials.Principal(news.Status.By); err == nil {
			shown.Says(who, news.Status.Payload)
		}
	}
}

// heard has a command done that was published at another bridge, unless its publisher
// has lost its rights meanwhile.
func (p *plain) heard(by *entities.Publisher, c *plainCommand) {
	who, err := p.s.credentials.Principal(c.By)
	if err != nil {
		p.s.log.Info("a command of Home Assistant is not done", "topic", c.Topic, "client", c.Client, "error", err)
		return
	}
	by.Take(entities.Command{Who: who, Client: c.Client, Topic: c.Topic, Payload: c.Payload})
}

// A plain has no statements for all bridges, and remembers nothing of ended ones.

func (p *plain) Everything(func([]byte)) {}
func (p *plain) Told(relay.Node, []byte) {}
func (p *plain) Began(relay.Node)        {}
func (p *plain) Ended(relay.Node)        {}
func (p *plain) Gone(relay.Node)         {}
