package topic

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/aibridge/aibridge/broker"
	a2adoor "github.com/aibridge/aibridge/doors/a2a"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// Options configure a [Topic]. All but TrustedJWKS are needed.
type Options struct {
	Door  *a2adoor.Door // answers for the bridge's own agents
	Cards records.Table[Card]
	// Publish sends a message of the bridge.
	Publish func(protocol.Recipients, protocol.Message) (receivers int, err error)
	// Client returns the principal of the client with an id in a space, if it is
	// connected here.
	Client func(space protocol.SpaceID, clientID string) (who *protocol.Principal, ok bool)
	// MayRespond reports whether answers to the principal may go to a topic that is none
	// of the profile.
	MayRespond func(who *protocol.Principal, topic string) bool
	// Gone returns a context that ends when no answer to a client on a topic is of use
	// any more, nil if that will not be known.
	Gone func(of broker.SessionID, topic string) context.Context
	// Admit counts a request to one of the bridge's agents, or refuses it.
	Admit func(who *protocol.Principal) error

	Unit     string // org/unit of the bridge's own agents
	BridgeID string // the last part of their ids for the bridge itself
	// TrustedJWKS are the URLs of key sets that cards may name; any when empty.
	TrustedJWKS []string
	Log         *slog.Logger
}

// A Topic serves the topics of the profile.
type Topic struct {
	Options
	open  context.Context // ends with Close
	close context.CancelFunc
	tasks chan func(context.Context)
	asked *asked

	mu      sync.Mutex
	changes map[string]int            // of cards, by their keys, in this minute; of the goroutine of Run
	minute  time.Time                 // since when they are counted
	shown   map[protocol.SpaceID]bool // spaces that have the bridge's card
	stale   map[string]bool           // keys of cards with a possibly changed status
	staleCh chan struct{}
	replies map[string]*Reply // requests of the bridge itself, by Correlation Data
	working sync.WaitGroup
}

// mostWaiting is the greatest number of cards that wait to be stored.
const mostWaiting = 256

// Open has the broker hand in messages on the topics. Call it before
// [broker.Broker.Serve].
func Open(o Options, handle func(filter string, fn func(*broker.Publication))) *Topic {
	t := &Topic{
		Options: o, tasks: make(chan func(context.Context), mostWaiting), asked: newAsked(), shown: map[protocol.SpaceID]bool{}, stale: map[string]bool{},
		staleCh: make(chan struct{}, 1), replies: map[string]*Reply{},
	}
	t.open, t.close = context.WithCancel(context.Background())
	handle(Root+discovery+"/#", t.register)
	handle(Root+requests+"/#", t.request)
	handle(Root+replies+"/#", t.reply)
	o.Cards.OnChange(func(_ string, old, now *Card) { t.announce(old, now) })
	for at := range o.Cards.All() {
		t.doubt(at)
	}
	return t
}

// Run stores cards that clients publish, until ctx ends.
func (t *Topic) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			t.close()
			t.working.Wait()
			return nil
		case do := <-t.tasks:
			do(ctx)
		case <-t.staleCh:
			t.settle(ctx)
		}
	}
}

// announce brings the retained message of a card in line with the record.
func (t *Topic) announce(old, now *Card) {
	m := protocol.Message{QoS: 1, Retain: true, View: true, ContentType: protocol.ContentJSON}
	shown := now
	if now == nil {
		shown = old
	} else {
		m.Payload = []byte(now.Card)
		m.UserProperties = []protocol.UserProperty{{Key: "a2a-status", Value: now.status()}, {Key: "a2a-status-source", Value: "broker"}}
	}
	if shown == nil {
		return
	}
	m.Topic = Root + discovery + "/" + shown.ID
	if _, err := t.Publish(protocol.Everybody(shown.Space), m); err != nil {
		t.Log.Warn("a card is not shown", "agent", shown.ID, "space", shown.Space, "error", err)
	}
}

// visits shows the bridge's own card in the space of a client.
func (t *Topic) visits(c *broker.Client) {
	space := c.Principal().Home()
	t.mu.Lock()
	shown := t.shown[space]
	t.shown[space] = true
	t.mu.Unlock()
	if shown {
		return
	}
	text, err := t.Door.CardOver(a2adoor.Interface{URL: "mqtt:" + Root + requests + "/" + t.own(), Binding: "MQTT5+JSONRPC", Tenant: t.Unit})
	if err == nil {
		t.announce(nil, &Card{Space: space, ID: t.own(), Card: string(text), Online: true})
	}
}

// own is the id of the bridge itself.
func (t *Topic) own() string { return t.Unit + "/" + t.BridgeID }

// Connected notes that a client came.
func (t *Topic) Connected(c *broker.Client) {
	if !IsID(c.ID) {
		return
	}
	at := key(c.Principal().Home(), c.ID)
	if _, _, known := t.Cards.Get(at); known {
		t.doubt(at)
	}
}

// Disconnected notes that a client went.
func (t *Topic) Disconnected(c *broker.Client) { t.Connected(c) }

// doubt triggers a check of a card's status. It does not block.
func (t *Topic) doubt(at string) {
	t.mu.Lock()
	t.stale[at] = true
	t.mu.Unlock()
	select {
	case t.staleCh <- struct{}{}:
	default:
	}
}

// settle stores the current status of cards.
func (t *Topic) settle(ctx context.Context) {
	t.mu.Lock()
	stale := t.stale
	t.stale = map[string]bool{}
	t.mu.Unlock()
	for at := range stale {
		_, _, err := records.Change(ctx, t.Cards, at, func(old *Card, _ uint64) (*Card, error) {
			if old == nil {
				return nil, nil
			}
			return t.standing(old), nil
		})
		if err != nil && ctx.Err() == nil {
			t.Log.Warn("the status of an agent is not stored", "agent", at, "error", err)
		}
	}
}

// standing is a card with the status of its client.
func (t *Topic) standing(c *Card) *Card {
	now := *c
	who, here := t.Client(c.Space, c.ID)
	here = here && c.Owner.Includes(who.Party())
	switch {
	case here:
		now.Online, now.Bridge = true, t.BridgeID
	case c.Bridge == t.BridgeID || c.Bridge == "":
		now.Online = false
	}
	return &now
}

// register takes the card of an agent, or its withdrawal.
func (t *Topic) register(p *broker.Publication) {
	settle := p.Take()
	n, ok := parse(p.Topic)
	who := p.Client.Principal()
	c := &Card{Space: who.Home(), ID: n.id, Owner: who.Party(), Card: string(p.Payload)}
	switch {
	case !ok || n.family != discovery || n.id != p.Client.ID:
		settle(broker.NotAuthorized("the client id must be that of the agent"))
		return
	case unitOf(n.id) == t.Unit:
		settle(broker.NotAuthorized("the agents of the unit are the bridge's own"))
		return
	case !t.owns(p.Client, n.id):
		settle(broker.NotAuthorized("the agent is somebody else's"))
		return
	}
	if len(c.Card) > 0 {
		err := checkCard([]byte(c.Card))
		if err == nil {
			err = checkKeys([]byte(c.Card), t.TrustedJWKS)
		}
		if err != nil {
			t.Log.Info("a card is refused", "agent", n.id, "space", c.Space, "error", err)
			settle(broker.Verdict{Reason: payloadInvalid, Text: err.Error()})
			return
		}
	}
	select {
	case t.tasks <- func(ctx context.Context) { settle(t.store(ctx, c)) }:
	default:
		settle(broker.Verdict{Reason: quotaExceeded, Text: "too many cards wait to be stored"})
	}
}

// Reason codes of MQTT 5.
const (
	quotaExceeded  = 0x97
	payloadInvalid = 0x99
	implementation = 0x83
)

// store stores a card, and returns the verdict for its publisher.
func (t *Topic) store(ctx context.Context, c *Card) broker.Verdict {
	var refused broker.Verdict
	at := key(c.Space, c.ID)
	if time.Since(t.minute) > time.Minute {
		t.minute, t.changes = time.Now(), map[string]int{}
	}
	if known, _, there := t.Cards.Get(at); !there || known.Card != c.Card {
		t.changes[at]++
	}
	changes := t.changes[at]
	_, _, err := records.Change(ctx, t.Cards, at, func(old *Card, _ uint64) (*Card, error) {
		refused = broker.Verdict{}
		switch {
		case old != nil && !old.Owner.Includes(c.Owner):
			refused = broker.NotAuthorized("the agent is somebody else's")
			return old, nil
		case old != nil && old.Card != c.Card && changes > cardChanges:
			refused = broker.Verdict{Reason: quotaExceeded, Text: "the card changes too often"}
			return old, nil
		case len(c.Card) == 0:
			return nil, nil
		case old == nil:
			if refused = t.room(c); !refused.Allowed() {
				return nil, nil
			}
		}
		return t.standing(c), nil
	})
	if err != nil {
		return broker.Verdict{Reason: implementation, Text: protocol.AsError(err).Message}
	}
	return refused
}

// room is the verdict on one more card.
func (t *Topic) room(c *Card) broker.Verdict {
	own, all := 0, 0
	for _, other := range t.Cards.All() {
		if other.Space != c.Space {
			continue
		}
		all++
		if other.Owner == c.Owner {
			own++
		}
	}
	if own >= ownerCards || all >= spaceCards {
		return broker.Verdict{Reason: quotaExceeded, Text: "there are too many cards"}
	}
	return broker.Verdict{}
}
