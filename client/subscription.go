package client

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/protocol"
)

// maxWaiting bounds the messages that wait for a subscription's handler.
const maxWaiting = 1024

// A Subscription receives the messages of one topic filter until it is closed
// or its client is. It outlives connections.
type Subscription struct {
	client  *Client
	filter  string // as given, with $share/g/ if it is shared
	inner   string // without
	qos     byte
	waiting chan Message
	ctx     context.Context
	cancel  context.CancelFunc
	dropped atomic.Uint64
}

// Subscribe has messages that match a filter handled, one at a time and in
// order, with QoS 1. Retained messages come first. At most 1024 messages wait
// for a slow handler; more are dropped and counted. The context given to the
// handler ends with the subscription.
func (c *Client) Subscribe(ctx context.Context, filter string, handle func(context.Context, Message)) (*Subscription, error) {
	if reason := protocol.CheckFilter(filter); reason != "" {
		return nil, protocol.InvalidParam("filter", reason)
	}
	s := &Subscription{client: c, filter: filter, inner: filter, qos: 1, waiting: make(chan Message, maxWaiting)}
	if _, inner, shared := protocol.SplitShare(filter); shared {
		s.inner = inner
	}
	s.ctx, s.cancel = context.WithCancel(c.ctx)

	l, err := c.online(ctx)
	if err != nil {
		return nil, err
	}
	// Known before it is sent: a retained message may follow at once, and a
	// reconnect in between then restores it.
	c.subscriptions.add(s)
	if err := subscribe(ctx, c.mqtt, filter, s.qos); err != nil && l.ctx.Err() == nil {
		c.subscriptions.remove(s)
		s.cancel()
		return nil, failed(err)
	}
	c.spawn(func() { s.run(handle) })
	return s, nil
}

func (s *Subscription) run(handle func(context.Context, Message)) {
	for {
		select {
		case m := <-s.waiting:
			handle(s.ctx, m)
		case <-s.ctx.Done():
			return
		}
	}
}

// Filter is the filter subscribed to.
func (s *Subscription) Filter() string { return s.filter }

// Dropped counts the messages lost because the handler was too slow.
func (s *Subscription) Dropped() uint64 { return s.dropped.Load() }

// Close ends the subscription. Without a connection the bridge need not be told, as
// later connections do not subscribe again.
func (s *Subscription) Close(ctx context.Context) error {
	s.cancel()
	if last := s.client.subscriptions.remove(s); !last {
		return nil
	}
	s.client.mu.Lock()
	connected := s.client.connection != nil
	s.client.mu.Unlock()
	if !connected {
		return nil
	}
	return s.client.unsubscribe(ctx, s.filter)
}

func (c *Client) unsubscribe(ctx context.Context, filter string) error {
	_, err := c.mqtt.Unsubscribe(ctx, &paho.Unsubscribe{Topics: []string{filter}})
	return failed(err)
}

// failed is an error of the MQTT library as callers see it.
func failed(err error) error {
	if code := protocol.CodeOf(err); code == protocol.Internal {
		return protocol.Wrap(protocol.TargetUnavailable, err, "the connection to the bridge was lost")
	}
	if err == nil {
		return nil
	}
	return protocol.AsError(err)
}

// subscriptions are the subscriptions of a client's users.
type subscriptions struct {
	client *Client
	mu     sync.RWMutex
	all    map[*Subscription]struct{}
}

func newSubscriptions(c *Client) *subscriptions {
	return &subscriptions{client: c, all: make(map[*Subscription]struct{})}
}

func (x *subscriptions) add(s *Subscription) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all[s] = struct{}{}
}

// remove reports whether it was the last subscription to its filter.
func (x *subscriptions) remove(s *Subscription) (last bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.all[s]; !ok {
		return false
	}
	delete(x.all, s)
	for other := range x.all {
		if other.filter == s.filter {
			return false
		}
	}
	return true
}

// filters lists the filters to subscribe to on a fresh connection.
func (x *subscriptions) filters() map[string]byte {
	x.mu.RLock()
	defer x.mu.RUnlock()
	filters := make(map[string]byte, len(x.all))
	for s := range x.all {
		filters[s.filter] = s.qos
	}
	return filters
}

func (x *subscriptions) deliver(m Message) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for s := range x.all {
		if !protocol.Match(s.inner, m.Topic) {
			continue
		}
		select {
		case s.waiting <- clone(m):
		default:
			if s.dropped.Add(1) == 1 {
				x.client.log.Warn("messages dropped: the handler is too slow", "filter", s.filter)
			}
		}
	}
}
