package ask

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/protocol"
)

// Options configure a [Service]. Directory and Publisher are needed; other zero
// fields mean the defaults.
type Options struct {
	Directory Directory
	Publisher Publisher

	Topics   protocol.Topics
	BridgeID string          // sender_id of requests
	Limits   protocol.Limits // of answers
	// AllowPrivate lets endpoints be called at loopback and private addresses.
	AllowPrivate bool
	NewID        func() string // makes ids of requests, default [NewIDs]

	Log        *slog.Logger
	Tracer     trace.Tracer          // nil records no spans
	Registerer prometheus.Registerer // nil keeps the metrics to itself
}

// A Publisher sends MQTT messages of the bridge's own.
type Publisher interface {
	// Publish sends a message to those of the recipients who listen, and tells
	// how many connected clients get it. It keeps nothing of the message.
	Publish(to protocol.Recipients, m protocol.Message) (receivers int, err error)
}

// A Service asks agents. Its methods may be called at the same time by many
// goroutines.
type Service struct {
	opts Options
	log  *slog.Logger

	exchanges     *exchanges
	http          *httpClient
	endpointCalls *endpointCalls
	callers       callerMarks
	metrics       *metrics
}

// New makes a service. [Service.Close] ends it.
func New(o Options) (*Service, error) {
	if o.Topics.Root() == "" {
		o.Topics = protocol.NewTopics("")
	}
	if o.NewID == nil {
		o.NewID = NewIDs()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{
		opts:      o,
		log:       o.Log,
		exchanges: newExchanges(),
		http:      newHTTPClient(o.AllowPrivate, o.Limits),
		callers:   newCallerMarks(),
	}
	s.endpointCalls = newEndpointCalls(s)
	var err error
	if s.metrics, err = newMetrics(o.Registerer, s); err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	return s, nil
}

// Close ends the calls of endpoints and waits for them.
func (s *Service) Close() {
	s.endpointCalls.close()
	s.http.close()
}

// Open is the number of requests that are not answered yet.
func (s *Service) Open() int { return s.exchanges.open() }

// LeastBusy picks the peer with the fewest open requests. Among equals the
// choice goes round. There must be one.
func (s *Service) LeastBusy(peers []Peer) Peer {
	s.exchanges.mu.Lock()
	defer s.exchanges.mu.Unlock()
	return s.exchanges.leastBusy(peers)
}

// NewIDs returns a maker of ids for requests: a random part of its own and a
// number. Nobody else may use one, hence nobody has to be unable to guess it.
func NewIDs() func() string {
	prefix := strings.ReplaceAll(protocol.NewID(), "-", "")[:20]
	var last atomic.Uint64
	return func() string {
		var room [40]byte
		id := append(append(room[:0], prefix...), '-')
		return string(strconv.AppendUint(id, last.Add(1), 10))
	}
}
