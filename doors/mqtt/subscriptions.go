package mqtt

import (
	"context"
	"strings"
	"sync"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/cloudevent"
)

// subscriptions are the subscriptions of connected clients, by the thing they
// are about. A client that loses a right loses its subscriptions by it at once.
type subscriptions struct {
	mu      sync.Mutex
	byThing map[string]map[subscription]bool   // "" for events about nothing in particular
	of      map[*broker.Client]map[string]bool // things
}

type subscription struct {
	client *broker.Client
	filter string
}

func (s *subscriptions) add(thing string, c *broker.Client, filter string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byThing == nil {
		s.byThing = make(map[string]map[subscription]bool)
		s.of = make(map[*broker.Client]map[string]bool)
	}
	if s.byThing[thing] == nil {
		s.byThing[thing] = make(map[subscription]bool, 1)
	}
	if s.of[c] == nil {
		s.of[c] = make(map[string]bool, 1)
	}
	s.byThing[thing][subscription{c, filter}] = true
	s.of[c][thing] = true
}

// remove forgets a subscription.
func (s *subscriptions) remove(thing string, c *broker.Client, filter string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byThing[thing], subscription{c, filter})
	if len(s.byThing[thing]) == 0 {
		delete(s.byThing, thing)
	}
}

// drop forgets a client.
func (s *subscriptions) drop(c *broker.Client) {
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
func (s *subscriptions) about(thing string) []subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]subscription, 0, len(s.byThing[thing]))
	for sub := range s.byThing[thing] {
		list = append(list, sub)
	}
	return list
}

func (s *subscriptions) all() (list []subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, subs := range s.byThing {
		for sub := range subs {
			list = append(list, sub)
		}
	}
	return list
}

// thingOf is the thing a filter of topics is about: "cap/climate", "agent/lamp",
// "scene/HOME/climate", "vfs/pictures"; "" if it is about several or none.
func thingOf(topics protocol.Topics, filter string) string {
	rest, ours := topics.Under(cloudevent.Told(topics, filter))
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

// thing is the thing that a subscription is about: also one by which messages of other
// topics are lent.
func (s *server) thing(filter string) string {
	topics := s.broker.Inner(filter)
	if rules, ok := s.rulesOf(topics).(interface{ About(filter string) string }); ok {
		topics = rules.About(topics)
	}
	return thingOf(s.topics, topics)
}

// joined notes a subscription. One that is not allowed by now - the right to
// it went in this moment - is ended.
func (s *server) joined(c *broker.Client, filter string) {
	s.subscriptions.add(s.thing(filter), c, filter)
	s.judge(subscription{c, filter})
}

// left forgets a subscription.
func (s *server) left(c *broker.Client, filter string) {
	s.subscriptions.remove(s.thing(filter), c, filter)
}

// ReviewCap ends the subscriptions to the topics of a Cap of those who may not
// use them any more. It does not block.
func (c *Clients) ReviewCap(id protocol.CapID) { c.review("cap/" + string(id)) }

// ReviewScene does so for a scene on a Cap.
func (c *Clients) ReviewScene(scene protocol.SceneType, id protocol.CapID) {
	c.review("scene/" + string(scene) + "/" + string(id))
}

func (c *Clients) review(thing string) {
	s := c.server.Load()
	if s == nil {
		return
	}
	for _, sub := range c.subscriptions.about(thing) {
		s.judge(sub)
	}
}

// ReviewAll does so for every subscription, in the background: policies have
// changed.
func (c *Clients) ReviewAll() {
	select {
	case c.reviews <- struct{}{}:
	default: // one is waiting to begin
	}
}

// Run makes the reviews of all subscriptions until ctx ends.
func (c *Clients) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.reviews:
			c.reviewAll()
		}
	}
}

func (c *Clients) reviewAll() {
	s := c.server.Load()
	if s == nil {
		return
	}
	for _, sub := range c.subscriptions.all() {
		s.judge(sub)
	}
}

// judge ends a subscription that is not allowed.
func (s *server) judge(sub subscription) {
	if s.MaySubscribe(sub.client, s.broker.Inner(sub.filter)).Allowed() {
		return
	}
	go func() { // whoever tells of it may hold locks
		if s.isConnected(sub.client) {
			s.broker.DropSubscription(sub.client.Session(), sub.filter)
		}
	}()
}
