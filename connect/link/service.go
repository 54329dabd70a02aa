package link

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// Options configure a [Service]. All but Registerer are needed.
type Options struct {
	Links   []Config
	Records records.Table[Record]
	// Authenticate yields the principal of an API key; "" fails, except with dev.
	Authenticate func(ctx context.Context, key string) (*protocol.Principal, error)
	// Root is the first level of the bridge's own topics, BridgeID its id.
	Root, BridgeID string
	// Mark tells the bridge from all others, see [viaProperty].
	Mark string
	// MaxPacket is the largest packet that the bridge's broker takes, in bytes;
	// ReceiveMaximum is the number of a client's messages that it takes
	// unacknowledged.
	MaxPacket, ReceiveMaximum int
	// Shared is set in a cluster: the links are those of several bridges. Holder is
	// set if these work at the same time, and one of them runs the links.
	Shared     bool
	Holder     Holder
	Registerer prometheus.Registerer
	Log        *slog.Logger

	pause time.Duration // before the first attempt to connect again
}

// A Service runs the links, and shows them.
type Service struct {
	Options
	Broker  Broker
	links   []*Link
	metrics *metrics
	working atomic.Bool // on this bridge of the cluster

	mu   sync.Mutex
	kept map[string]time.Time // when a link's session was last seen to, by name
}

// New makes the service. The configurations were checked.
func New(o Options) *Service {
	s := &Service{Options: o, kept: map[string]time.Time{}}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if s.pause == 0 {
		s.pause = firstPause
	}
	for i := range o.Links {
		s.links = append(s.links, newLink(s, &o.Links[i]))
	}
	s.metrics = newMetrics(s)
	return s
}

// Commands are the commands of the family.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{commands.New(linkList, s.List), commands.New(linkGet, s.Get)}
}

// Run keeps the links connected until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	s.working.Store(true)
	defer s.working.Store(false)
	s.forget(ctx)
	var running sync.WaitGroup
	for _, l := range s.links {
		running.Go(func() { l.run(ctx) })
	}
	running.Wait()
	return nil
}

// forget ends the sessions of links that are not configured any more.
func (s *Service) forget(ctx context.Context) {
	for name, record := range s.Records.All() {
		if s.link(name) != nil {
			continue
		}
		_, revision, _ := s.Records.Get(name)
		s.Broker.End(record.Space, LocalID(name))
		if err := s.Records.Delete(ctx, name, revision); err != nil {
			s.Log.Warn("the record of a link that is gone stays", "link", name, "error", err)
		}
	}
}

func (s *Service) link(name string) *Link {
	for _, l := range s.links {
		if l.config.Name == name {
			return l
		}
	}
	return nil
}

// authenticate yields the principal that a link acts for.
func (s *Service) authenticate(ctx context.Context, c *Config) (*protocol.Principal, error) {
	key, err := secret(c.Principal)
	if err != nil {
		return nil, err
	}
	return s.Authenticate(ctx, key)
}

// keptFor is the time after which the end of a link's session is put off again while
// the remote broker is away.
const keptFor = time.Hour

// stale reports whether the session of a link has to be made, or its end put off.
func (s *Service) stale(l *Link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.kept[l.config.Name]) > keptFor
}

func (s *Service) renewed(l *Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[l.config.Name] = time.Now()
}
