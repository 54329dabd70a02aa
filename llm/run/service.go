package run

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Service manages packages of workflows and their runs. It is safe for use by many
// goroutines.
type Service struct {
	opts    Options
	parks   bool // runs wait for approvals as records
	library library
	shelf   shelf
	refer   sync.RWMutex    // read-locked while a reference to a package is added, locked while unreferenced packages are removed
	ctx     context.Context // ends when the service closes
	stop    context.CancelCauseFunc
	wg      sync.WaitGroup
	metrics *metrics
	pausing func(ctx context.Context, d time.Duration) error

	recovered atomic.Int64 // time of the recovery, Unix nanoseconds

	mu     sync.Mutex
	closed bool
	live   map[string]*live
	ready  []string                   // waiting runs whose approvals are settled
	heard  map[string][]chan struct{} // closed when a run that waits for an approval changes
	stir   chan struct{}
	own    map[protocol.Party]int // number of live runs by owner
}

// New returns a service. It follows the tables, so call it before they are loaded.
// Start it with [Service.Recover].
func New(o Options) *Service {
	parks := o.Approvals != nil
	o.setDefaults()
	s := &Service{opts: o, parks: parks, live: make(map[string]*live), own: make(map[protocol.Party]int), stir: make(chan struct{}, 1), heard: make(map[string][]chan struct{}), pausing: pause}
	s.library = library{dir: filepath.Join(o.Dir, "packages"), blobs: o.Blobs, limits: o.Limits, loaded: make(map[string]*volume)}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	s.shelf = folders{o.Dir}
	if o.Logs != nil {
		s.shelf = &logs{
			folders: folders{o.Dir}, log: o.Logs, blobs: o.Blobs, sealer: o.Sealer, ctx: s.ctx, late: lateFlush, pause: pause, logger: o.Log,
			texts: make(map[string]textAt),
		}
	}
	s.metrics = newMetrics(o.Registerer, s)
	o.Approvals.OnSettled(s.settled)
	o.Runs.OnChange(s.changed)
	return s
}

// Close stops the engines. Their runs are resumed after a restart.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop(errClosing)
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
