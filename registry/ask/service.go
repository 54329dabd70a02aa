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
	// Tells reports whether an agent may see its callers. With nil none may.
	Tells func(AgentKey) bool
	// AllowPrivate lets endpoints be called at loopback and private addresses.
	AllowPrivate bool
	// Others are the other bridges of a cluster, nil without any.
	Others Others
	NewID  func() string        // returns a new id of a request, default one of [NewIDs]
	Made   func(id string) bool // reports whether NewID has made an id
	// IDs are those that NewID makes ids by, nil for ids without numbers.
	IDs *IDs

	Log        *slog.Logger
	Tracer     trace.Tracer          // nil records no spans
	Registerer prometheus.Registerer // nil keeps the metrics to itself
}

// A Publisher sends MQTT messages of the bridge's own.
type Publisher interface {
	// Publish sends a message to the subscribed recipients, and returns the number of
	// connected clients that get it. It does not retain the message.
	Publish(to protocol.Recipients, m protocol.Message) (receivers int, err error)
}

// A Service sends requests to agents. It is safe for use by many goroutines.
type Service struct {
	opts Options
	log  *slog.Logger

	exchanges     *exchanges
	http          *httpClient
	endpointCalls *endpointCalls
	callers       callerMarks
	handovers     handovers
	metrics       *metrics
}

// New makes a service. [Service.Close] ends it.
func New(o Options) (*Service, error) {
	if o.Topics.Root() == "" {
		o.Topics = protocol.NewTopics("")
	}
	if o.NewID == nil {
		ids := NewIDs()
		o.NewID, o.Made, o.IDs = ids.New, ids.Made, ids
	}
	if o.Made == nil {
		o.Made = func(string) bool { return false }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{
		opts:      o,
		log:       o.Log,
		exchanges: newExchanges(o.IDs),
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
func (s *Service) Open() int { return s.exchanges.count() }

// OpenWith is the number of requests that an agent has not answered yet.
func (s *Service) OpenWith(key AgentKey) int {
	s.exchanges.mu.Lock()
	defer s.exchanges.mu.Unlock()
	if l := s.exchanges.byAgent[key]; l != nil {
		return l.n
	}
	return 0
}

// LeastBusy picks the peer with the fewest open requests. Among equals the
// choice goes round. There must be one.
func (s *Service) LeastBusy(peers []Peer) Peer {
	s.exchanges.mu.Lock()
	defer s.exchanges.mu.Unlock()
	return s.exchanges.leastBusy(peers)
}

// IDs makes ids of requests: a random prefix and a number. An answer counts only from
// the asked agent, so guessing an id gains nothing.
type IDs struct {
	prefix string
	last   atomic.Uint64
}

// NewIDs returns ids with another random part.
func NewIDs() *IDs {
	return &IDs{prefix: strings.ReplaceAll(protocol.NewID(), "-", "")[:20] + "-"}
}

// New makes an id.
func (i *IDs) New() string {
	var room [40]byte
	return string(strconv.AppendUint(append(room[:0], i.prefix...), i.last.Add(1), 10))
}

// Prefix is the common prefix of all ids made here, and of no others.
func (i *IDs) Prefix() string { return i.prefix }

// Made reports whether an id was made here.
func (i *IDs) Made(id string) bool {
	n, ok := i.number([]byte(id))
	return ok && n <= i.last.Load()
}

// number is the number of an id that was made here, or may be later: each has another, and
// none has 0. Without IDs none has any.
func (i *IDs) number(id []byte) (n uint64, ok bool) {
	if i == nil || len(id) <= len(i.prefix) || len(id) > len(i.prefix)+maxDigits || string(id[:len(i.prefix)]) != i.prefix {
		return 0, false
	}
	digits := id[len(i.prefix):]
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + uint64(d-'0')
	}
	return n, digits[0] != '0'
}

// maxDigits is the greatest length of a number that is certain to fit.
const maxDigits = 19
