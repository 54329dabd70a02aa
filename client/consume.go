package client

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Limits and defaults of a [Consumer].
const (
	defaultBatch  = 500
	maxBatch      = 10_000
	defaultLinger = 100 * time.Millisecond
	defaultKeep   = 7 * 24 * time.Hour
	maxInFlight   = 1000

	maxHandlePause = 30 * time.Second // between attempts to handle a batch
	ackInterval    = 10 * time.Millisecond
)

// A Consumer takes messages at least once: the bridge forgets a message when
// Handle has returned nil for it, and keeps the messages that come while the consumer is
// away.
type Consumer struct {
	// Session is the MQTT client id whose session the bridge keeps. A consumer
	// that comes back under it goes on where it was. Two at a time throw each
	// other out; several share the work by sessions of their own and one filter
	// $share/GROUP/….
	Session string

	// Filters are the topics. The session keeps them: with other filters take
	// another Session. Messages are asked for with QoS 1. Messages of QoS 0 are
	// not kept while the consumer is away.
	Filters []string

	// AtMostOnce asks for messages with QoS 0: none comes twice, and those are lost
	// that come while the consumer is away, or faster than they are handled.
	AtMostOnce bool

	Batch    int           // messages at most in a call of Handle: 1 to 10000, 500 by default
	InFlight int           // batches that are handled at a time: 1 to 1000, 1 by default
	Linger   time.Duration // a batch is handed over so long after its first message at the latest, 100 ms by default
	Keep     time.Duration // how long the bridge keeps the session of a consumer that is away, 7 days by default, bounded by the bridge's own limit

	// Ready is called whenever a connection and its subscriptions are established:
	// all messages published from now on arrive. It may be nil, and must not wait.
	Ready func()

	// Handle gets messages in the order of their arrival, one batch at a time, or as
	// many as InFlight says, on goroutines of their own.
	// A batch is handed over again while it returns an error, with growing
	// pauses, for ever: Handle itself puts aside messages that it can never
	// handle. A message comes twice if the connection or
	// the process ends before the bridge knows that it was handled.
	Handle func(context.Context, []Message) error
}

// Consume runs a consumer over a connection of its own until ctx ends; it then
// returns nil. An error is a refusal by the bridge: of the credential, of a
// filter, or because another client uses the session. Options that concern
// agents and calls are not for consumers.
func Consume(ctx context.Context, address string, what Consumer, opts ...Option) error {
	if err := what.check(); err != nil {
		return err
	}
	var o options
	for _, set := range opts {
		set(&o)
	}
	if o.agent != nil {
		return protocol.InvalidParam("agent", "is not for a consumer")
	}
	o.clientID, o.cache, o.intake = what.Session, false, newIntake(&what)
	c, err := dial(ctx, address, o)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	err = c.consume(ctx)
	if closed := c.Close(); err == nil {
		err = closed
	}
	return err
}

// check reports a wrong field, and sets the defaults of absent ones.
func (w *Consumer) check() error {
	switch {
	case w.Session == "":
		return protocol.InvalidParam("session", "must not be empty: the bridge keeps messages for it")
	case len(w.Filters) == 0:
		return protocol.InvalidParam("filters", "must not be empty")
	case w.Handle == nil:
		return protocol.InvalidParam("handle", "must not be nil")
	case w.Batch < 0 || w.Batch > maxBatch:
		return protocol.InvalidParam("batch", fmt.Sprintf("must be 1 to %d, is %d", maxBatch, w.Batch))
	case w.InFlight < 0 || w.InFlight > maxInFlight:
		return protocol.InvalidParam("in_flight", fmt.Sprintf("must be 1 to %d, is %d", maxInFlight, w.InFlight))
	case w.Keep < 0 || w.Keep > math.MaxUint32*time.Second:
		return protocol.InvalidParam("keep", fmt.Sprintf("must not be negative or over a hundred years, is %s", w.Keep))
	}
	for i, filter := range w.Filters {
		if reason := protocol.CheckFilter(filter); reason != "" {
			return protocol.InvalidParam(fmt.Sprintf("filters[%d]", i), reason)
		}
	}
	if w.Batch == 0 {
		w.Batch = defaultBatch
	}
	if w.InFlight == 0 {
		w.InFlight = 1
	}
	if w.Linger <= 0 {
		w.Linger = defaultLinger
	}
	if w.Keep == 0 {
		w.Keep = defaultKeep
	}
	return nil
}

// consume hands over batch after batch until ctx or the client ends.
func (c *Client) consume(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(c.ctx, stop)()
	q := c.options.intake
	var working sync.WaitGroup
	places := make(chan struct{}, q.what.InFlight)
	for q.place(running, places) {
		batch := q.take(running)
		if batch == nil {
			break
		}
		working.Go(func() {
			defer func() { <-places }()
			_ = c.handle(running, batch) // fails when running ends
		})
	}
	working.Wait()
	if ctx.Err() != nil {
		q.letAcknowledge()
		return nil
	}
	return c.ended()
}

// handle has one batch handled, and acknowledges it. The error is that of ctx.
func (c *Client) handle(ctx context.Context, batch []delivery) error {
	messages := make([]Message, len(batch))
	for i := range batch {
		messages[i] = batch[i].message
	}
	for attempt := 1; ; attempt++ {
		err := c.options.intake.what.Handle(ctx, messages)
		if err == nil {
			acknowledge(batch)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.log.Warn("messages not handled, they are handed over again", "messages", len(messages), "attempt", attempt, "error", err)
		if err := sleep(ctx, backoff(attempt, maxHandlePause)); err != nil {
			return err
		}
		if batch = current(batch); len(batch) == 0 {
			return nil // the next connection brings them again
		}
	}
}
