package ask

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/aibridge/aibridge/internal/telemetry/semconv"
	"github.com/aibridge/aibridge/protocol"
)

// A delivery is a request on its way to a peer.
type delivery struct {
	envelope protocol.Request
	raw      []byte        // the envelope as another bridge has written it, nil for one of this bridge
	expiry   time.Duration // time within which delivery makes sense
	caller   string        // the mark of the caller, "" without one
	again    bool          // running it twice is as good as once
	parent   string        // its trace context, if another bridge has it; else that of the context
	notice   bool          // nothing more is expected of it
}

// wayTo returns the way to a peer; ok reports whether there is one.
func (s *Service) wayTo(p Peer) (w Way, ok bool) {
	if p.Agent == nil {
		return Way{Endpoints: p.Endpoints}, true
	}
	return s.opts.Directory.Way(p.Agent.Key())
}

// wayOrSession is the way to a peer. An agent without one gets the request where
// its MQTT session may find it later.
func (s *Service) wayOrSession(p Peer) Way {
	w, ok := s.wayTo(p)
	if !ok {
		w.Topics = TopicsOf(s.opts.Topics, p.Agent.Key().ID)
	}
	return w
}

// deliver sends a request by a way. It does not wait: the outcome comes with the end of
// the exchange. It reports whether a connected peer gets the request.
func (s *Service) deliver(ctx context.Context, e *exchange, w Way, d *delivery) (bool, error) {
	switch {
	case w.Bridge != Bridge{}:
		return s.handOver(ctx, e, w.Bridge, d), nil
	case w.Topics.Request != "":
		return s.publishTo(ctx, w.Topics, e, d)
	case w.Line != nil:
		s.exchanges.mu.Lock()
		e.line = w.Line
		s.exchanges.mu.Unlock()
		marked, err := d.marked(s.opts.Limits)
		return err == nil && w.Line.Send(marked), err
	default:
		return s.endpointCalls.start(ctx, e, w.Endpoints, d), nil
	}
}

// append appends the envelope.
func (d *delivery) append(dst []byte) []byte {
	if d.raw != nil {
		return append(dst, d.raw...)
	}
	return d.envelope.Append(dst)
}

// marked is the envelope with the mark of the caller in it.
func (d *delivery) marked(limits protocol.Limits) ([]byte, error) {
	request := d.envelope
	if d.raw != nil {
		if err := request.Decode(d.raw, limits); err != nil {
			return nil, err
		}
	}
	request.Metadata.Caller = d.caller
	return request.Append(nil), nil
}

// A requestBuffer is the buffer for a request to an agent on MQTT. It is used again.
type requestBuffer struct {
	envelope, correlation []byte
	properties            []protocol.UserProperty
}

var requestBuffers = sync.Pool{New: func() any { return new(requestBuffer) }}

// maxRequestBuffer is the largest buffer that is kept for reuse, in bytes.
const maxRequestBuffer = 64 << 10

func (s *Service) publishTo(ctx context.Context, to Topics, e *exchange, d *delivery) (delivered bool, err error) {
	l := requestBuffers.Get().(*requestBuffer)
	l.properties = append(l.properties[:0], protocol.UserProperty{Key: "version", Value: protocol.Version})
	if trace := d.envelope.Metadata.TraceID; trace != "" {
		l.properties = append(l.properties, protocol.UserProperty{Key: "trace_id", Value: trace})
	}
	if parent := cmp.Or(d.parent, semconv.Traceparent(ctx)); parent != "" {
		l.properties = append(l.properties, protocol.UserProperty{Key: protocol.TraceparentProperty, Value: parent})
	}
	if d.caller != "" {
		l.properties = append(l.properties, protocol.UserProperty{Key: "caller", Value: d.caller})
	}
	l.envelope = d.append(l.envelope[:0])
	l.correlation = append(l.correlation[:0], e.id...)
	s.tellMessage(ctx, to.Request, e.id)
	receivers, err := s.opts.Publisher.Publish(e.Agent.Recipients(), protocol.Message{
		Topic:           to.Request,
		Payload:         l.envelope,
		QoS:             1,
		Expiry:          d.expiry,
		ContentType:     protocol.ContentJSON,
		ResponseTopic:   to.Response,
		CorrelationData: l.correlation,
		UserProperties:  l.properties,
	})
	if cap(l.envelope) <= maxRequestBuffer {
		requestBuffers.Put(l)
	}
	return receivers > 0, err
}
