package registry

import (
	"context"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A delivery is a request on its way to a peer.
type delivery struct {
	envelope *protocol.Request
	expiry   time.Duration // how long it is worth delivering
	caller   string        // the mark of who asks, "" without one
	again    bool          // running it twice is as good as once
}

// wayTo is the way to a peer; ok is whether there is one.
func (s *Service) wayTo(p peer) (w way, ok bool) {
	if p.agent == nil {
		return way{endpoints: p.endpoints}, true
	}
	a, w := s.board.reachable(p.agent.key())
	return w, a != nil
}

// deliver sends a request by a way. It does not wait: what becomes of it is told
// by the end of the exchange. It reports whether somebody who is there gets it.
func (s *Service) deliver(ctx context.Context, e *exchange, w way, d *delivery) (bool, error) {
	switch {
	case w.mail.request != "":
		return s.publishTo(ctx, w.mail, e, d)
	case w.line != nil:
		s.exchanges.mu.Lock()
		e.line = w.line
		s.exchanges.mu.Unlock()
		return w.line.Send(d.envelope.Append(nil)), nil
	default:
		return s.posts.start(ctx, e, w.endpoints, d), nil
	}
}

// A letter is what it takes to write a request to an agent on MQTT. Letters are
// used again.
type letter struct {
	envelope, correlation []byte
	properties            []protocol.UserProperty
}

var letters = sync.Pool{New: func() any { return new(letter) }}

// maxLetter is the largest letter that is kept for reuse, in bytes.
const maxLetter = 64 << 10

func (s *Service) publishTo(ctx context.Context, to mail, e *exchange, d *delivery) (delivered bool, err error) {
	l := letters.Get().(*letter)
	l.properties = append(l.properties[:0], protocol.UserProperty{Key: "version", Value: protocol.Version})
	if trace := d.envelope.Metadata.TraceID; trace != "" {
		l.properties = append(l.properties, protocol.UserProperty{Key: "trace_id", Value: trace})
	}
	if parent := traceparent(ctx); parent != "" {
		l.properties = append(l.properties, protocol.UserProperty{Key: "traceparent", Value: parent})
	}
	if d.caller != "" {
		l.properties = append(l.properties, protocol.UserProperty{Key: "caller", Value: d.caller})
	}
	l.envelope = d.envelope.Append(l.envelope[:0])
	l.correlation = append(l.correlation[:0], e.id...)
	receivers, err := s.opts.Publisher.Publish(e.agent.recipients(), protocol.Message{
		Topic:           to.request,
		Payload:         l.envelope,
		QoS:             1,
		Expiry:          d.expiry,
		ContentType:     protocol.ContentJSON,
		ResponseTopic:   to.response,
		CorrelationData: l.correlation,
		UserProperties:  l.properties,
	})
	if cap(l.envelope) <= maxLetter {
		letters.Put(l)
	}
	return receivers > 0, err
}
