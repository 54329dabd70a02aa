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
)

var (
	errSilent = errors.New("the server went silent")
	errGap    = errors.New("messages are missing")
	errLags   = errors.New("the server that delivers lacks messages of the stream")
)

// A consumer reads one stream in order, and goes on as messages are added. It never recovers from a fault: it reports it,
// and its reader begins anew with another consumer.
type consumer struct {
	session   *connectedSpan
	line      *connection
	conn      *nats.Conn
	js        jetstream.JetStream
	stream    string
	from      uint64 // the sequence that it begins at, 1 or more
	whole     bool   // drain does not stop in the middle of an atomic batch
	name      string
	sub       *nats.Subscription
	ctx       context.Context // ends with the subscription
	cancel    context.CancelFunc
	alive     func() // called whenever the server shows that it serves us
	delivered uint64 // messages so far, by the server's count
	last      uint64 // the sequence of the last message, or the one before the first
	watch     lookout
	patience  time.Duration // with a server that delivers nothing though messages are left
	left      uint64        // messages in the stream after the last one read
}

// A message is one message of a stream.
type message struct {
	*nats.Msg
	seq  uint64
	left uint64 // messages in the stream after this one
}

// consume begins to read a stream at a sequence, or at the first message behind
// it. The consumer ends with ctx and with the session of the nc. It is waited
// for until patience ends.
func consume(ctx context.Context, l *connection, stream string, from uint64, patience time.Duration) (_ *consumer, err error) {
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
	c := &consumer{session: session, line: l, conn: l.conn, js: js, stream: stream, from: max(from, 1), sub: sub, alive: func() {}}
	c.last, c.watch.told, c.patience = c.from-1, make(chan looked, 1), lagPatience
	c.ctx, c.cancel = session.during(ctx)
	// Unsubscribing wakes a reader that waits in step.
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
	asking, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	created, err := js.CreateOrUpdatePushConsumer(asking, stream, jetstream.ConsumerConfig{
		DeliverSubject:    inbox,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       c.from,
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

// close ends the consumer, at the server too if that can be reached. As long as the
// server knows of it, a bridge seems to work on the store.
func (c *consumer) close() {
	c.cancel()
	during, cancel := c.session.during(context.Background())
	defer cancel()
	asking, done := context.WithTimeout(during, askTimeout)
	defer done()
	_ = c.js.DeleteConsumer(asking, c.stream, c.name)
}

// lagPatience is the time that a reader waits for a server that has to catch up with
// the others before it takes the messages so far for all.
const lagPatience = 15 * time.Second

// drain calls f for every message until there is none left. The server's count of
// messages left does not decide that, for it is behind the stream: a message that
// was replaced before it came here no longer counts, and the one that replaced it
// may not count yet. Nor does a server that has just come back have all messages. So
// the leader of the stream is asked for its last message. All that was missed up to
// now was replaced up to there, and no more is missed if all come from here to
// there.
func (c *consumer) drain(f func(message) error) error {
	last, gap, inBatch := c.from-1, false, false
	heard := time.Now()
	one := func() (bool, error) {
		m, ok, err := c.step()
		if err != nil || !ok {
			return false, err
		}
		gap = gap || m.seq != last+1
		last, heard = m.seq, time.Now()
		inBatch = c.whole && len(m.Header[batchID]) > 0 && len(m.Header[batchCommit]) == 0
		return true, f(m)
	}
	for {
		for c.left > 0 {
			if _, err := one(); err != nil {
				return err
			}
			if time.Since(heard) > c.patience {
				return errLags
			}
		}
		end, exhausted, err := c.end(last)
		if err != nil || exhausted {
			return err
		}
		gap = false
		for last < end || inBatch {
			met, err := one()
			if err != nil {
				return err
			}
			if gap || !met {
				break
			}
		}
		if !gap && last >= end && !inBatch || last < end && time.Since(heard) > c.patience {
			return nil
		}
	}
}

// end asks the leader of the stream for the sequence of its last message, and
// whether all behind the given one are gone, as those are that have expired.
func (c *consumer) end(last uint64) (end uint64, exhausted bool, err error) {
	info, err := inspect(c.ctx, c.line, c.stream)
	if err != nil || info.State.LastSeq <= last {
		return last, false, err
	}
	m, err := nextMessage(c.ctx, c.line, c.stream, ">", last+1)
	return info.State.LastSeq, m == nil, err
}

// next waits for the next message. It fails with errLags if the server that delivers
// lacks messages that the leader of the stream has: a server that has lost touch with
// the others goes on to send heartbeats.
func (c *consumer) next() (message, error) {
	c.watch.rest()
	for {
		m, ok, err := c.step()
		if ok || err != nil {
			return m, err
		}
		if c.isBehind() {
			return message{}, errLags
		}
	}
}

// A lookout compares a consumer that gets no messages with the leader of its stream.
type lookout struct {
	quiet  int  // heartbeats since the last message, or the last answer
	grace  int  // heartbeats that missing messages still have to come; 0 if none are known to be missing
	asking bool // an answer is on its way to told
	told   chan looked
}

// A looked is an answer of the leader.
type looked struct {
	last    uint64 // the message behind which it was asked for more
	missing bool   // there are more
}

const (
	lookAfter = 6 // heartbeats without a message before the leader is asked, again and again
	lookGrace = 4 // heartbeats that messages on their way have to arrive
)

// rest begins anew, after a message.
func (w *lookout) rest() { w.quiet, w.grace = 0, 0 }

// isBehind is called at every heartbeat, and reports whether messages that the leader
// has do not come. It does not wait for the leader's answer, which counts for nothing
// once a message has come.
func (c *consumer) isBehind() bool {
	w := &c.watch
	w.quiet++
	select {
	case answer := <-w.told:
		w.asking, w.quiet = false, 0
		if answer.missing && answer.last == c.last {
			w.grace = lookGrace
		}
	default:
	}
	switch {
	case w.grace > 1:
		w.grace--
		return false
	case w.grace == 1:
		return true
	case w.quiet >= lookAfter && !w.asking:
		w.asking = true
		go func(last uint64) {
			end, exhausted, err := c.end(last)
			w.told <- looked{last, err == nil && end > last && !exhausted}
		}(c.last)
	}
	return false
}

// step waits for the next message or heartbeat of the server.
func (c *consumer) step() (m message, ok bool, err error) {
	msg, err := c.sub.NextMsg(silence)
	switch {
	case errors.Is(err, nats.ErrTimeout):
		return m, false, errSilent
	case err != nil && c.ctx.Err() != nil:
		return m, false, context.Cause(c.ctx)
	case err != nil:
		return m, false, err
	}
	c.alive()
	if len(msg.Data) == 0 && msg.Header.Get("Status") != "" {
		return m, false, c.control(msg)
	}
	m, err = c.accept(msg)
	return m, err == nil, err
}

// control handles a message by which the server steers delivery.
func (c *consumer) control(msg *nats.Msg) error {
	if status := msg.Header.Get("Status"); status != "100" {
		return fmt.Errorf("consumer ended by the server: %s %s", status, msg.Header.Get("Description"))
	}
	if msg.Reply != "" { // flow control wants an answer
		return msg.Respond(nil)
	}
	// A heartbeat tells how much was sent, and the subject to answer if an answer
	// to flow control was lost.
	if last := msg.Header.Get("Nats-Last-Consumer"); last != "" && last != strconv.FormatUint(c.delivered, 10) {
		return errGap
	}
	if stalled := msg.Header.Get("Nats-Consumer-Stalled"); stalled != "" {
		return c.conn.Publish(stalled, nil)
	}
	return c.stillLeft()
}

// stillLeft asks, while the server idles, whether the rest is still there. It
// can have expired, or turned out to be damaged.
func (c *consumer) stillLeft() error {
	if c.left == 0 {
		return nil
	}
	asking, cancel := context.WithTimeout(c.ctx, askTimeout)
	defer cancel()
	handle, err := c.js.PushConsumer(asking, c.stream, c.name)
	if err != nil {
		return err
	}
	if info := handle.CachedInfo(); info.Delivered.Consumer == c.delivered {
		c.left = info.NumPending
	} // else a message is on its way
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
	c.delivered, c.left, c.last = position, m.left, m.seq
	return m, nil
}

// parseDelivery reads the reply subject of a delivered message:
// $JS.ACK.<stream>.<consumer>.<deliveries>.<seq>.<position>.<time>.<left>, or the
// same with domain and account before the stream and a token at the end.
func parseDelivery(msg *nats.Msg) (m message, position uint64, err error) {
	fields := strings.Split(msg.Reply, ".")
	switch n := len(fields); {
	case n == 9:
		fields = fields[5:]
	case n >= 11:
		fields = fields[7:]
	default:
		return m, 0, fmt.Errorf("not a delivery: %q", msg.Reply)
	}
	var numbers [4]uint64 // seq, position, time, left
	for i := range numbers {
		if numbers[i], err = strconv.ParseUint(fields[i], 10, 64); err != nil {
			return m, 0, fmt.Errorf("not a delivery: %q", msg.Reply)
		}
	}
	return message{Msg: msg, seq: numbers[0], left: numbers[3]}, numbers[1], nil
}

// readStream calls f for every message of a stream, and returns when f was
// called for all there are. It does not stop in the middle of an atomic batch.
func readStream(ctx context.Context, l *connection, stream string, f func(message) error) error {
	return readStreamFrom(ctx, l, stream, 1, f)
}

// readStreamFrom is readStream from a sequence on.
func readStreamFrom(ctx context.Context, l *connection, stream string, from uint64, f func(message) error) error {
	c, err := consume(ctx, l, stream, from, askTimeout)
	if err != nil {
		return err
	}
	defer c.close()
	c.whole = true
	return c.drain(f)
}

// followFlow calls take for every message of a stream on the flow connection in its
// order, from the first that there is, and current once all have come that there
// were. It returns when ctx ends. Slices are valid until take returns.
func (s *Store) followFlow(ctx context.Context, stream string, current func(), take func(message)) {
	next := uint64(1)
	for told := false; ctx.Err() == nil; {
		err := s.followFrom(ctx, stream, &next, take, func() {
			if !told {
				told = true
				current()
			}
		})
		if ctx.Err() != nil {
			return
		}
		s.log.Debug("a stream is followed anew", "stream", stream, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *Store) followFrom(ctx context.Context, stream string, next *uint64, take func(message), current func()) error {
	c, err := consume(ctx, s.flow, stream, *next, askTimeout)
	if err != nil {
		return err
	}
	defer c.close()
	each := func(m message) error {
		*next = m.seq + 1
		take(m)
		return nil
	}
	if err := c.drain(each); err != nil {
		return err
	}
	current()
	for {
		m, err := c.next()
		if err != nil {
			return err
		}
		if err := each(m); err != nil {
			return err
		}
	}
}
