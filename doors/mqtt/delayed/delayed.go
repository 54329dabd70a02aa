// Package delayed keeps messages that are to be published later: those on
// $delayed/SECONDS/TOPIC, as EMQX has them.
// https://docs.emqx.com/en/emqx/latest/messaging/mqtt-delayed-publish.html
package delayed

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// A Message waits for its time.
type Message struct {
	Client    string                  `json:"client"` // id of the client that published it
	Grant     grant.Grant             `json:"grant"`
	Due       int64                   `json:"due"` // milliseconds of Unix time
	Topic     string                  `json:"topic"`
	Payload   []byte                  `json:"payload,omitempty"`
	QoS       byte                    `json:"qos,omitempty"`
	Retain    bool                    `json:"retain,omitempty"`
	Expiry    int64                   `json:"expiry,omitempty"` // in seconds from Due, 0 for none
	Type      string                  `json:"type,omitempty"`
	Respond   string                  `json:"respond,omitempty"`
	Correlate []byte                  `json:"correlate,omitempty"`
	User      []protocol.UserProperty `json:"user,omitempty"`
}

// party is the party whose room the message takes.
func (m *Message) party() fair.Party {
	p := m.Grant.Party()
	return fair.Party{Principal: p.String(), Space: string(p.Space)}
}

// size is the number of bytes that a message counts for.
func (m *Message) size() int64 {
	n := len(m.Topic) + len(m.Payload) + len(m.Type) + len(m.Respond) + len(m.Correlate)
	for _, u := range m.User {
		n += len(u.Key) + len(u.Value)
	}
	return int64(n)
}

// Bounds of what waits. Principals and spaces have shares of the first two (package
// fair): a quarter and a half.
const (
	mostMessages = 100_000
	mostBytes    = 256 << 20
	mostPayload  = 256 << 10
	mostStoring  = 4096 // at once
)

// Reason codes of MQTT 5.
const (
	implementation = 0x83
	quotaExceeded  = 0x97
	tooLarge       = 0x95
)

// A Server is the broker.
type Server interface {
	Handle(filter string, fn func(*broker.Publication))
	PublishFor(client *broker.Client, m protocol.Message) (v broker.Verdict, stored func(context.Context) error)
}

// Options configure a [Keeper]. All are needed.
type Options struct {
	Server Server
	Table  records.Table[Message]
	// Rights is the giver of a grant, with the rights of the present, also if the
	// credential has expired; an error if it was revoked.
	Rights     func(grant.Grant) (*protocol.Principal, error)
	Registerer prometheus.Registerer
	Log        *slog.Logger
}

// A Keeper keeps messages until they are due.
type Keeper struct {
	Options
	dropped prometheus.Counter
	working sync.WaitGroup

	mu      sync.Mutex
	open    bool
	storing int
	room    *room
	waiting queue
	changed chan struct{} // something else is due first
}

// Open has the server hand in messages that are to wait. Call it before the server
// serves.
func Open(o Options) *Keeper {
	k := &Keeper{
		Options: o, open: true, room: newRoom(), changed: make(chan struct{}, 1),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "aibridge_delayed_refused_total", Help: "Delayed messages that were refused when they were due."}),
	}
	o.Registerer.MustRegister(k.dropped, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aibridge_delayed_messages", Help: "Messages that wait to be published, on $delayed.",
	}, func() float64 { return float64(o.Table.Len()) }))
	o.Table.OnChange(k.note)
	o.Server.Handle(Prefix+"#", k.take)
	return k
}

// note follows the table.
func (k *Keeper) note(key string, old, now *Message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case now == nil:
		k.room.leave(key)
		if len(k.waiting) > 2*len(k.room.held)+fewLeft { // another bridge publishes them
			k.waiting.keep(func(i item) bool { return k.room.has(i.key) })
		}
	case old == nil:
		k.room.enter(key, now.party(), now.size())
		if k.waiting.add(item{now.Due, key}) {
			k.alert()
		}
	}
}

// fewLeft is the number of items that do not matter when their messages are gone.
const fewLeft = 1024

func (k *Keeper) alert() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// take takes a message that is to wait. Its acknowledgement says that it is stored.
func (k *Keeper) take(p *broker.Publication) {
	settle := p.Take()
	delay, name, wrong := Parse(p.Topic)
	switch {
	case wrong != "": // the rules of topics have refused it before
		settle(broker.Verdict{Reason: implementation, Text: wrong})
		return
	case len(p.Payload) > mostPayload:
		settle(broker.Verdict{Reason: tooLarge, Text: "a delayed message may have " + strconv.Itoa(mostPayload) + " bytes"})
		return
	}
	m := &Message{
		Client: p.Client.ID, Grant: grant.Of(p.Client.Principal()), Due: time.Now().Add(delay).UnixMilli(),
		Topic: name, Payload: bytes.Clone(p.Payload), QoS: p.QoS, Retain: p.Retain, Expiry: int64(p.Expiry / time.Second),
		Type: p.ContentType, Respond: p.ResponseTopic, Correlate: bytes.Clone(p.CorrelationData), User: slices.Clone(p.UserProperties),
	}
	key, err := uuid.NewV7() // in the order of time
	if err != nil {
		settle(broker.Verdict{Reason: implementation, Text: "no key for the message"})
		return
	}
	if !k.begin() {
		return // without an acknowledgement, so that the client sends it again
	}
	if refused := k.reserve(key.String(), m); refused != "" {
		k.working.Done()
		settle(broker.Verdict{Reason: quotaExceeded, Text: refused})
		return
	}
	go k.store(key.String(), m, settle)
}

// reserve makes room for a message that is about to be stored, or says why there is
// none.
func (k *Keeper) reserve(key string, m *Message) (refused string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch who := m.party(); {
	case k.storing >= mostStoring:
		return "too many delayed messages come at once"
	case !k.room.fits(who, m.size()):
		return "too many delayed messages wait"
	default:
		k.room.enter(key, who, m.size())
	}
	k.storing++
	return ""
}

// begin counts a message that is taken; false once the keeper is closed.
func (k *Keeper) begin() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open {
		k.working.Add(1)
	}
	return k.open
}

func (k *Keeper) store(key string, m *Message, settle func(broker.Verdict)) {
	defer k.working.Done()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := k.Table.Create(ctx, key, m)
	k.mu.Lock()
	k.storing--
	if _, _, there := k.Table.Get(key); err != nil && !there {
		k.room.leave(key)
	}
	k.mu.Unlock()
	if err != nil {
		k.Log.Warn("a delayed message is not stored", "client", m.Client, "topic", m.Topic, "error", err)
		settle(broker.Verdict{Reason: implementation, Text: protocol.AsError(err).Message, Unstored: true})
		return
	}
	settle(broker.Verdict{})
}

// Close waits until what was taken is stored.
func (k *Keeper) Close(ctx context.Context) error {
	k.mu.Lock()
	k.open = false
	k.mu.Unlock()
	done := make(chan struct{})
	go func() { k.working.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run publishes what is due, until ctx ends. In a cluster one bridge runs it.
func (k *Keeper) Run(ctx context.Context) error {
	for {
		due, next := k.due(time.Now())
		if len(due) > 0 {
			if err := k.publish(ctx, due); err != nil {
				return nil
			}
			continue
		}
		if !k.await(ctx, next) {
			return nil
		}
	}
}

// mostAtOnce is the number of messages that are published before their records are
// removed.
const mostAtOnce = 256

// due takes from the queue what is due, and tells how long the next one waits; less
// than 0 if there is none.
func (k *Keeper) due(at time.Time) (keys []string, next time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.waiting) > 0 && len(keys) < mostAtOnce {
		if first := k.waiting[0]; first.due > at.UnixMilli() {
			return keys, time.UnixMilli(first.due).Sub(at)
		}
		keys = append(keys, k.waiting.take().key)
	}
	return keys, -1
}

// await returns when the wait is over, or something else is due first; false if ctx
// ends.
func (k *Keeper) await(ctx context.Context, wait time.Duration) bool {
	var timer <-chan time.Time
	if wait >= 0 {
		t := time.NewTimer(min(wait, time.Minute)) // clocks are set
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-timer:
	case <-k.changed:
	}
	return true
}

// again is the time after which a message is published again that was not stored.
const again = 5 * time.Second

// publish publishes messages, and removes their records once what the messages left
// is stored: a bridge that dies between the two publishes them again.
func (k *Keeper) publish(ctx context.Context, keys []string) error {
	stored := make(map[string]func(context.Context) error, len(keys))
	for _, key := range keys {
		m, _, ok := k.Table.Get(key)
		if !ok {
			continue
		}
		who, err := k.Rights(m.Grant)
		if err != nil {
			k.drop(m, protocol.AsError(err).Message)
			continue
		}
		v, done := k.Server.PublishFor(broker.NewClient(m.Client, who), m.message())
		if !v.Allowed() {
			k.drop(m, v.Text)
			continue
		}
		stored[key] = done
	}
	for _, key := range keys {
		if done := stored[key]; done != nil {
			if err := done(ctx); ctx.Err() != nil {
				return ctx.Err()
			} else if err != nil {
				k.Log.Warn("a delayed message is published again", "key", key, "error", err)
				k.postpone(key)
				continue
			}
		}
		if err := k.Table.Delete(ctx, key, 0); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if protocol.AsError(err).Code != protocol.NotFound {
				k.Log.Warn("the record of a delayed message stays", "key", key, "error", err)
			}
		}
	}
	return ctx.Err()
}

// postpone has a message published again.
func (k *Keeper) postpone(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waiting.add(item{time.Now().Add(again).UnixMilli(), key})
}

func (k *Keeper) drop(m *Message, reason string) {
	k.dropped.Inc()
	k.Log.Info("a delayed message is refused", "client", m.Client, "topic", m.Topic, "reason", reason)
}

func (m *Message) message() protocol.Message {
	return protocol.Message{
		Topic: m.Topic, Payload: m.Payload, QoS: m.QoS, Retain: m.Retain, Expiry: time.Duration(m.Expiry) * time.Second,
		ContentType: m.Type, ResponseTopic: m.Respond, CorrelationData: m.Correlate, UserProperties: m.User,
	}
}
