package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	heartbeat = 500 * time.Millisecond // asked of the server while there is nothing to deliver
	silence   = 3 * heartbeat          // after which the server is thought to have forgotten us

	askTimeout = 5 * time.Second // for questions about streams: nobody may be there to answer
)

var (
	errSilent = errors.New("the server went silent")
	errGap    = errors.New("messages are missing")
)

// A consumer reads one stream from its first message on, in order, and goes
// on as messages are added. It never recovers from a fault: it reports it,
// and its reader begins anew with another consumer.
type consumer struct {
	session   *session
	conn      *nats.Conn
	js        jetstream.JetStream
	stream    string
	name      string
	sub       *nats.Subscription
	ctx       context.Context // ends with the subscription
	cancel    context.CancelFunc
	delivered uint64 // messages so far, by the server's count
	left      uint64 // messages in the stream after the last one read
}

// A message is one message of a stream.
type message struct {
	*nats.Msg
	seq  uint64
	left uint64 // messages in the stream after this one
	time time.Time
}

// consume begins to read a stream. The consumer ends with ctx and with the
// session of the link.
func consume(ctx context.Context, l *link, stream string) (_ *consumer, err error) {
	session, err := l.connected(ctx)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(l.conn)
	if err != nil {
		return nil, err
	}
	inbox := l.conn.NewInbox()
	sub, err := l.conn.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	c := &consumer{session: session, conn: l.conn, js: js, stream: stream, sub: sub}
	c.ctx, c.cancel = session.during(ctx)
	// Unsubscribing wakes a reader that waits in next.
	context.AfterFunc(c.ctx, func() { _ = sub.Unsubscribe() })
	defer func() {
		if err != nil {
			c.cancel()
		}
	}()
	// Flow control keeps the server from sending more than 32 MiB ahead.
	if err := sub.SetPendingLimits(-1, 128<<20); err != nil {
		return nil, err
	}
	asking, cancel := context.WithTimeout(c.ctx, askTimeout)
	defer cancel()
	created, err := js.CreateOrUpdatePushConsumer(asking, stream, jetstream.ConsumerConfig{
		DeliverSubject:    inbox,
		DeliverPolicy:     jetstream.DeliverAllPolicy,
		AckPolicy:         jetstream.AckNonePolicy,
		MaxDeliver:        1,
		FlowControl:       true,
		IdleHeartbeat:     heartbeat,
		InactiveThreshold: 10 * silence,
		MemoryStorage:     true,
		Replicas:          1,
	})
	if err != nil {
		return nil, err
	}
	info := created.CachedInfo()
	c.name, c.left = info.Name, info.NumPending
	return c, nil
}

// close ends the consumer, at the server too if that can be reached.
func (c *consumer) close() {
	c.cancel()
	during, cancel := c.session.during(context.Background())
	defer cancel()
	asking, done := context.WithTimeout(during, silence)
	defer done()
	_ = c.js.DeleteConsumer(asking, c.stream, c.name)
}

// next waits for the next message. It calls alive whenever the server shows
// that it still serves the consumer.
func (c *consumer) next(alive func()) (message, error) {
	for {
		msg, err := c.sub.NextMsg(silence)
		switch {
		case errors.Is(err, nats.ErrTimeout):
			return message{}, errSilent
		case err != nil && c.ctx.Err() != nil:
			return message{}, context.Cause(c.ctx)
		case err != nil:
			return message{}, err
		}
		alive()
		if len(msg.Data) == 0 && msg.Header.Get("Status") != "" {
			if err := c.control(msg); err != nil {
				return message{}, err
			}
			continue
		}
		return c.accept(msg)
	}
}

// control handles a message by which the server steers delivery.
func (c *consumer) control(msg *nats.Msg) error {
	if status := msg.Header.Get("Status"); status != "100" {
		return fmt.Errorf("consumer ended by the server: %s %s", status, msg.Header.Get("Description"))
	}
	if msg.Reply != "" { // flow control wants an answer
		return msg.Respond(nil)
	}
	// A heartbeat tells how much was sent, and whom to wake if an answer to
	// flow control was lost.
	if last := msg.Header.Get("Nats-Last-Consumer"); last != "" && last != strconv.FormatUint(c.delivered, 10) {
		return errGap
	}
	if stalled := msg.Header.Get("Nats-Consumer-Stalled"); stalled != "" {
		return c.conn.Publish(stalled, nil)
	}
	return nil
}

// accept takes a message of the stream if it is the one that must come next.
func (c *consumer) accept(msg *nats.Msg) (message, error) {
	m, position, err := parseDelivery(msg)
	if err != nil {
		return message{}, err
	}
	if position != c.delivered+1 {
		return message{}, errGap
	}
	c.delivered, c.left = position, m.left
	return m, nil
}

// parseDelivery reads what the reply subject of a delivered message tells:
// $JS.ACK.<stream>.<consumer>.<deliveries>.<seq>.<position>.<time>.<left>, or
// the same with domain and account before the stream and a token at the end.
func parseDelivery(msg *nats.Msg) (m message, position uint64, err error) {
	fields := strings.Split(msg.Reply, ".")
	switch n := len(fields); {
	case n == 9:
		fields = fields[2:]
	case n >= 11:
		fields = fields[4:]
	default:
		return m, 0, fmt.Errorf("not a delivery: %q", msg.Reply)
	}
	var numbers [4]uint64
	for i := range numbers {
		if numbers[i], err = strconv.ParseUint(fields[3+i], 10, 64); err != nil {
			return m, 0, fmt.Errorf("not a delivery: %q", msg.Reply)
		}
	}
	return message{Msg: msg, seq: numbers[0], left: numbers[3], time: time.Unix(0, int64(numbers[2]))}, numbers[1], nil
}

// streamState asks for a stream's configuration and state.
func streamState(ctx context.Context, l *link, stream string) (*jetstream.StreamInfo, error) {
	session, err := l.connected(ctx)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(l.conn)
	if err != nil {
		return nil, err
	}
	during, cancel := session.during(ctx)
	defer cancel()
	asking, done := context.WithTimeout(during, askTimeout)
	defer done()
	handle, err := js.Stream(asking, stream)
	if err != nil {
		return nil, err
	}
	return handle.CachedInfo(), nil
}

// readStream calls f for every message of a stream, and returns when f was
// called for all there are. It does not stop in the middle of an atomic batch.
func readStream(ctx context.Context, l *link, stream string, f func(message) error) error {
	c, err := consume(ctx, l, stream)
	if err != nil {
		return err
	}
	defer c.close()
	for inBatch := false; c.left > 0 || inBatch; {
		m, err := c.next(func() {})
		if err != nil {
			return err
		}
		if err := f(m); err != nil {
			return err
		}
		inBatch = len(m.Header[batchID]) > 0 && len(m.Header[batchCommit]) == 0
	}
	return nil
}
