package app

import (
	"strings"
	"sync"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

// liveSubscriptions are the subscriptions of connected clients, by the thing
// they are about. Who loses a right loses at once what it subscribed to by it.
type liveSubscriptions struct {
	mu      sync.Mutex
	byThing map[string]map[liveSubscription]bool // "" is what is about nothing in particular
	of      map[*broker.Client]map[string]bool   // things
}

type liveSubscription struct {
	client *broker.Client
	filter string
}

func (s *liveSubscriptions) add(thing string, c *broker.Client, filter string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byThing == nil {
		s.byThing = make(map[string]map[liveSubscription]bool)
		s.of = make(map[*broker.Client]map[string]bool)
	}
	if s.byThing[thing] == nil {
		s.byThing[thing] = make(map[liveSubscription]bool, 1)
	}
	if s.of[c] == nil {
		s.of[c] = make(map[string]bool, 1)
	}
	s.byThing[thing][liveSubscription{c, filter}] = true
	s.of[c][thing] = true
}

// remove forgets a subscription.
func (s *liveSubscriptions) remove(thing string, c *broker.Client, filter string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byThing[thing], liveSubscription{c, filter})
	if len(s.byThing[thing]) == 0 {
		delete(s.byThing, thing)
	}
}

// drop forgets a client.
func (s *liveSubscriptions) drop(c *broker.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for thing := range s.of[c] {
		for sub := range s.byThing[thing] {
			if sub.client == c {
				delete(s.byThing[thing], sub)
			}
		}
		if len(s.byThing[thing]) == 0 {
			delete(s.byThing, thing)
		}
	}
	delete(s.of, c)
}

// about lists the subscriptions to topics of a thing.
func (s *liveSubscriptions) about(thing string) []liveSubscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]liveSubscription, 0, len(s.byThing[thing]))
	for sub := range s.byThing[thing] {
		list = append(list, sub)
	}
	return list
}

func (s *liveSubscriptions) all() (list []liveSubscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, subs := range s.byThing {
		for sub := range subs {
			list = append(list, sub)
		}
	}
	return list
}

// thingOf is the thing a filter is about: "cap/climate", "agent/lamp",
// "scene/HOME/climate", "vfs/pictures"; "" if it is about several or none.
func thingOf(topics protocol.Topics, filter string) string {
	if _, inner, shared := protocol.SplitShare(filter); shared {
		filter = inner
	}
	rest, ours := topics.Under(filter)
	if !ours {
		return ""
	}
	family, rest, _ := strings.Cut(rest, "/")
	id, rest, _ := strings.Cut(rest, "/")
	switch family {
	case "cap", "agent", "vfs":
	case "scene":
		second, _, _ := strings.Cut(rest, "/")
		id += "/" + second
	default:
		return ""
	}
	if strings.ContainsAny(id, "+#") {
		return ""
	}
	return family + "/" + id
}

// joined notes a subscription. One that is not allowed by now - the right to
// it went in this moment - is ended.
func (m *mqttSide) joined(c *broker.Client, filter string) {
	m.live.add(thingOf(m.topics, filter), c, filter)
	m.judge(liveSubscription{c, filter})
}

// left forgets a subscription.
func (m *mqttSide) left(c *broker.Client, filter string) {
	m.live.remove(thingOf(m.topics, filter), c, filter)
}

// A channel is a Cap, or a scene on one.
type channel struct {
	scene protocol.SceneType // "" is the Cap itself
	cap   protocol.CapID
}

func capChannel(id protocol.CapID) channel { return channel{cap: id} }

func (c channel) thing() string {
	if c.scene == "" {
		return "cap/" + string(c.cap)
	}
	return "scene/" + string(c.scene) + "/" + string(c.cap)
}

// review ends the subscriptions to a channel's topics of those who may not use
// them any more. It does not block.
func (m *mqttSide) review(c channel) {
	m.changed() // members: what was decided by membership is decided again
	for _, sub := range m.live.about(c.thing()) {
		m.judge(sub)
	}
}

// changed has decisions that depend on what is registered made again.
func (m *mqttSide) changed() {
	if m.factsChanged != nil {
		m.factsChanged()
	}
}

// reviewAll does so for every subscription, in the background: policies have
// changed.
func (m *mqttSide) reviewAll() {
	select {
	case m.reviews <- struct{}{}:
	default: // one is waiting to begin
	}
}

// reviewing runs the reviews until stop is closed.
func (m *mqttSide) reviewing(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-m.reviews:
			for _, sub := range m.live.all() {
				m.judge(sub)
			}
		}
	}
}

// judge ends a subscription that is not allowed.
func (m *mqttSide) judge(sub liveSubscription) {
	if m.MaySubscribe(sub.client, sub.filter).Allowed() {
		return
	}
	go func() { // whoever tells of it may hold locks
		if current, ok := m.clients.Load(sub.client.Session()); ok && current == sub.client {
			m.broker.DropSubscription(sub.client.Session(), sub.filter)
		}
	}()
}
