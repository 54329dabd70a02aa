package app

import (
	"sync"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

// channelSubscriptions are the live subscriptions to topics of Caps. Who loses
// its membership loses them at once.
type channelSubscriptions struct {
	mu    sync.Mutex
	byCap map[protocol.CapID]map[channelSubscription]bool
	of    map[*broker.Client][]protocol.CapID
}

type channelSubscription struct {
	client *broker.Client
	filter string
}

func (s *channelSubscriptions) add(id protocol.CapID, c *broker.Client, filter string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byCap == nil {
		s.byCap = make(map[protocol.CapID]map[channelSubscription]bool)
		s.of = make(map[*broker.Client][]protocol.CapID)
	}
	if s.byCap[id] == nil {
		s.byCap[id] = make(map[channelSubscription]bool)
	}
	if sub := (channelSubscription{c, filter}); !s.byCap[id][sub] {
		s.byCap[id][sub] = true
		s.of[c] = append(s.of[c], id)
	}
}

// remove forgets a subscription.
func (s *channelSubscriptions) remove(c *broker.Client, filter string) {
	s.forget(c, func(sub channelSubscription) bool { return sub.filter == filter })
}

// drop forgets a client.
func (s *channelSubscriptions) drop(c *broker.Client) {
	s.forget(c, func(channelSubscription) bool { return true })
}

func (s *channelSubscriptions) forget(c *broker.Client, which func(channelSubscription) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []protocol.CapID
	for _, id := range s.of[c] {
		kept := false
		for sub := range s.byCap[id] {
			switch {
			case sub.client != c:
			case which(sub):
				delete(s.byCap[id], sub)
			default:
				kept = true
			}
		}
		if kept {
			left = append(left, id)
		}
		if len(s.byCap[id]) == 0 {
			delete(s.byCap, id)
		}
	}
	if len(left) == 0 {
		delete(s.of, c)
	} else {
		s.of[c] = left
	}
}

// to lists the subscriptions to topics of a Cap.
func (s *channelSubscriptions) to(id protocol.CapID) []channelSubscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]channelSubscription, 0, len(s.byCap[id]))
	for sub := range s.byCap[id] {
		list = append(list, sub)
	}
	return list
}

// joined notes a subscription to the topics of a Cap. One that is not allowed
// by now - its session slept meanwhile, or the member left in this moment - is
// ended.
func (m *mqttSide) joined(c *broker.Client, filter string) {
	id, ok := m.capOf(filter)
	if !ok {
		return
	}
	m.channels.add(id, c, filter)
	m.judge(channelSubscription{c, filter})
}

// review ends the subscriptions to a Cap's topics of those who may not use
// them any more. It does not block.
func (m *mqttSide) review(id protocol.CapID) {
	for _, sub := range m.channels.to(id) {
		m.judge(sub)
	}
}

// judge ends a subscription that is not allowed.
func (m *mqttSide) judge(sub channelSubscription) {
	if m.MaySubscribe(sub.client, sub.filter).Allowed() {
		return
	}
	go func() { // whoever tells of it may hold locks
		if current, ok := m.clients.Load(sub.client.ID); ok && current == sub.client {
			m.broker.DropSubscription(sub.client.ID, sub.filter)
		}
	}()
}
