package model

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

// Options configure a [Service]. Zero values mean the defaults.
type Options struct {
	Spent    records.Table[Spent]    // spending by budget; nil keeps it in memory alone
	Spending records.Table[Spending] // spending in detail; nil likewise
	Bridge   string                  // id of this bridge in a cluster; "" without a cluster

	// Configured is called after every configuration, applied or refused. Optional; it
	// must not call [Service.Configure].
	Configured func(Configured)

	// Bridges are the processes with the same budgets, which share the table Spent; nil
	// for a single one.
	Bridges Bridges

	// Allowance returns the allowance of an API key by its id, nil for no limits.
	// Optional.
	Allowance func(key string) *protocol.Allowance

	// Centre is the bridge whose budgets hold for this one, too; nil for none.
	Centre *Centre

	// Alert is called for budgets that are used up to 50, 80 and 100 percent, once in
	// each window. Optional; it must not block.
	Alert func(BudgetAlert)

	Transport  http.RoundTripper
	Log        *slog.Logger
	Tracer     trace.Tracer // nil traces nothing
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// A Service sends questions to language models. It is safe for use by many goroutines.
type Service struct {
	opts    Options
	catalog atomic.Pointer[catalog] // nil before the first configuration
	budgets *treasury
	centre  *borrower // nil without a centre
	ledger  *ledger
	cache   *answerCache
	answers *fair.Semaphore // bytes of answers that are being read
	flights flights
	metrics *metrics
	started time.Time
	active  atomic.Int64

	configuring sync.Mutex
	restored    sync.Once
}

// Configured is the outcome of a configuration.
type Configured struct {
	Revision uint64 // 0 if it was refused
	Err      error  // reason of the refusal
}

// New returns a service without a configuration.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Transport == nil {
		o.Transport = transport()
	}
	s := &Service{opts: o, budgets: newTreasury(o.Spent, o.Now), ledger: newLedger(o.Spending, o.Bridge, o.Now), cache: newAnswerCache(o.Now), answers: newAnswerSpace(answerBytes), started: o.Now()}
	s.budgets.allowance, s.budgets.alert = o.Allowance, s.alert
	if o.Bridges != nil {
		s.budgets.share(o.Bridges)
	}
	if o.Centre != nil {
		s.centre = newBorrower(*o.Centre, o.Now)
	}
	s.metrics = newMetrics(o.Registerer, s)
	return s
}

// transport returns an HTTP transport with enough idle connections for many streams to
// few services.
func transport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		MaxIdleConns:          1024,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		ForceAttemptHTTP2:     true,
	}
}

// Configure applies a configuration and returns its revision. Queries under way keep
// the one they began with. After an error the previous configuration stays.
func (s *Service) Configure(c Config) (revision uint64, err error) {
	s.configuring.Lock()
	defer s.configuring.Unlock()
	before := s.catalog.Load()
	if revision = c.Revision; revision == 0 {
		revision = 1
		if before != nil {
			revision = before.revision + 1
		}
	}
	next, err := newCatalog(c, revision, s.opts.Transport, s.opts.Now, before)
	if err != nil {
		return 0, err
	}
	s.restored.Do(func() {
		s.budgets.load()
		s.ledger.load()
		if s.centre != nil {
			s.centre.load()
		}
	})
	s.budgets.configure(c.Budgets)
	s.catalog.Store(next)
	s.cache.clear()
	s.opts.Log.Info("language models are configured", "revision", revision, "providers", len(c.Providers), "models", len(c.Models))
	s.notify(Configured{Revision: revision})
	return revision, nil
}

func (s *Service) notify(c Configured) {
	if s.opts.Configured != nil {
		s.opts.Configured(c)
	}
}

const (
	storePace    = 5 * time.Second
	defaultProbe = 30 * time.Second
	probeTimeout = 10 * time.Second
)

// Run stores the spending and probes idle providers until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	store := time.NewTicker(storePace)
	defer store.Stop()
	probe := time.NewTicker(time.Second)
	defer probe.Stop()
	var probes, owing sync.WaitGroup
	defer probes.Wait()
	defer owing.Wait()
	if s.centre != nil {
		owing.Go(func() { s.owes(ctx) })
	}
	for {
		select {
		case <-store.C:
			s.store(ctx)
		case <-s.budgets.asked:
			s.stored(ctx, s.budgets.tell(ctx, false))
		case <-probe.C:
			s.probe(ctx, &probes)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), storePace)
			defer cancel()
			s.store(last)
			s.stored(last, s.budgets.leave(last))
			return nil
		}
	}
}

func (s *Service) store(ctx context.Context) {
	s.stored(ctx, errors.Join(s.budgets.store(ctx), s.ledger.store(ctx)))
}

// owes tells the centre what was spent until ctx ends, and gives back then what is left.
func (s *Service) owes(ctx context.Context) {
	tick := time.NewTicker(storePace)
	defer tick.Stop()
	tell := func(ctx context.Context, leaving bool) {
		if err := s.centre.tell(ctx, leaving); err != nil && ctx.Err() == nil {
			s.opts.Log.Warn("the centre is not told yet what was spent", "error", err)
		}
	}
	for {
		select {
		case <-tick.C:
			tell(ctx, false)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), storePace)
			defer cancel()
			tell(last, true)
			return
		}
	}
}

func (s *Service) stored(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		s.opts.Log.Warn("the spending is not stored yet", "error", err)
	}
}

// alert logs an alert and passes it on.
func (s *Service) alert(a BudgetAlert) {
	s.opts.Log.Warn("a budget for language models is used up in part", "per", a.Per, "of", a.Owner, "window", a.Window, "percent", a.Percent)
	if s.opts.Alert != nil {
		s.opts.Alert(a)
	}
}

// probe probes the providers that were idle for a while.
func (s *Service) probe(ctx context.Context, probes *sync.WaitGroup) {
	cat := s.catalog.Load()
	if cat == nil || cat.config.Probe < 0 {
		return
	}
	pace := cat.config.Probe
	if pace == 0 {
		pace = defaultProbe
	}
	now := s.opts.Now()
	for _, p := range cat.providers {
		last := p.used.Load()
		if now.Sub(time.Unix(0, last)) < pace || !p.used.CompareAndSwap(last, now.UnixNano()) {
			continue
		}
		if ok, _ := p.breaker.admit(); !ok {
			continue
		}
		probes.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, probeTimeout)
			defer cancel()
			_, err := p.Models(ctx)
			if failure := asFailure(err); failure != nil && !tells(failure) {
				p.breaker.abandoned()
				return
			}
			s.verdict(p, err)
		})
	}
}

// tells reports whether a failure to list models counts against the provider: some
// providers list none, but answer queries.
func tells(e *chat.Error) bool {
	switch e.Kind {
	case chat.BadRequest, chat.UnknownModel, chat.BadResponse, chat.ContextTooLong:
		return false
	}
	return e.Status != http.StatusInternalServerError && e.Status != http.StatusNotImplemented
}

// verdict reports the outcome of a request to a provider's breaker.
func (s *Service) verdict(p *provider, err error) {
	failure := asFailure(err)
	switch {
	case err == nil:
		p.breaker.succeeded()
	case failure == nil: // caused by the caller
		p.breaker.abandoned()
	case failure.Kind == chat.BadRequest || failure.Kind == chat.ContextTooLong || failure.Kind == chat.UnknownModel:
		p.breaker.succeeded() // the provider works, and refused this request
	default:
		p.breaker.failed(failure)
		s.opts.Log.Warn("a provider of language models failed", "provider", p.config.Name, "kind", failure.Kind, "status", failure.Status, "error", failure.Message, "cause", failure.Cause)
	}
}
