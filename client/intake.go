package client

import (
	"context"
	"math"
	"net/url"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"
)

// A delivery is a message that waits to be acknowledged.
type delivery struct {
	message Message
	packet  *paho.Publish
	over    *paho.Client // the connection it came over, the only one that can acknowledge it
}

// stale reports whether the message comes again: the connection that it came over
// has ended, and the bridge does not know that it was handled.
func (d *delivery) stale() bool {
	if d.packet.QoS == 0 {
		return false
	}
	select {
	case <-d.over.Done():
		return true
	default:
		return false
	}
}

// current is a batch without the messages that come again: all of QoS 1, or none.
func current(batch []delivery) []delivery {
	for i := range batch {
		if batch[i].stale() {
			return nil
		}
	}
	return batch
}

// acknowledge acknowledges handled messages. Messages whose connection has ended
// come again.
func acknowledge(batch []delivery) {
	for i := range batch {
		_ = batch[i].over.Ack(batch[i].packet)
	}
}

// An intake holds the messages that have arrived for a consumer. The bridge bounds it: it
// sends no more than the Receive Maximum before some are acknowledged.
type intake struct {
	what *Consumer
	wake chan struct{}

	mu      sync.Mutex
	waiting []delivery
}

func newIntake(what *Consumer) *intake {
	return &intake{what: what, wake: make(chan struct{}, 1)}
}

// window is the number of messages that are on their way or at work: the batches that
// are handled, one that gathers.
func (q *intake) window() uint16 {
	return uint16(min((q.what.InFlight+1)*q.what.Batch, math.MaxUint16))
}

// keepSession makes connections go on with the session that the bridge keeps.
func (q *intake) keepSession(config *autopaho.ClientConfig) {
	config.CleanStartOnInitialConnection = false
	config.SessionExpiryInterval = uint32(max(q.what.Keep/time.Second, 1))
	config.EnableManualAcknowledgment = true
	config.SendAcksInterval = ackInterval
	complete := config.ConnectPacketBuilder
	config.ConnectPacketBuilder = func(packet *paho.Connect, to *url.URL) (*paho.Connect, error) {
		packet, err := complete(packet, to)
		if err == nil {
			window := q.window()
			packet.Properties.ReceiveMaximum = &window
		}
		return packet, err
	}
}

// subscribe asks for the topics. Retained messages come when the session is new.
func (q *intake) subscribe(ctx context.Context, m *autopaho.ConnectionManager) error {
	const whenNew = 1
	qos := byte(1)
	if q.what.AtMostOnce {
		qos = 0
	}
	for _, filter := range q.what.Filters {
		if err := subscribeWith(ctx, m, paho.SubscribeOptions{Topic: filter, QoS: qos, RetainHandling: whenNew}); err != nil {
			return err
		}
	}
	if q.what.Ready != nil {
		q.what.Ready()
	}
	return nil
}

// add takes a message. It does not wait. Messages of an older connection are dropped:
// they come again over this one.
func (q *intake) add(d delivery) {
	q.mu.Lock()
	if len(q.waiting) > 0 && q.waiting[0].over != d.over {
		q.waiting = nil
	}
	if d.packet.QoS > 0 || len(q.waiting) < 2*int(q.window()) {
		q.waiting = append(q.waiting, d)
	}
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// place waits for a place among the batches that are handled. It is false when ctx ends.
func (q *intake) place(ctx context.Context, places chan<- struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// take waits for a batch: until it is full, or its first message has lingered. It
// is nil when ctx ends.
func (q *intake) take(ctx context.Context) []delivery {
	var lingered <-chan time.Time
	for late := false; ; {
		batch, some := q.cut(late)
		if batch != nil {
			return batch
		}
		if some && lingered == nil {
			timer := time.NewTimer(q.what.Linger)
			defer timer.Stop()
			lingered = timer.C
		}
		select {
		case <-q.wake:
		case <-lingered:
			late = true
		case <-ctx.Done():
			return nil
		}
	}
}

// cut takes a full batch off, or a partial one that has lingered, and reports
// whether there is one.
func (q *intake) cut(lingered bool) (batch []delivery, some bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waiting), q.what.Batch)
	if n == 0 || n < q.what.Batch && !lingered {
		return nil, n > 0
	}
	batch = q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return batch, true
}

// letAcknowledge waits for the connection to send the acknowledgements that it has
// gathered, so that these messages do not come twice. The MQTT library sends them
// by a timer of its own, without notice.
func (q *intake) letAcknowledge() { time.Sleep(3 * ackInterval) }
