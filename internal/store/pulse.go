package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/protocol"
)

// pulseEvery is the interval at which streams are looked at.
const pulseEvery = 2 * time.Second

// A pulse knows which streams of a store work: those that exist, have a leader that
// answers, and took the last write to them.
type pulse struct {
	store *Store
	bad   atomic.Bool // some do not work

	mu      sync.Mutex
	streams []*watched
}

// A watched stream is one that a [pulse] looks at.
type watched struct {
	name, subject string // the stream, and the prefix of its subjects
	nc            *connection
	missed        error // why it did not answer last
	wrote         error // why the last write to it failed
}

// add has a stream looked at from now on.
func (p *pulse) add(l *connection, config *jetstream.StreamConfig) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.streams {
		if s.name == config.Name {
			return
		}
	}
	p.streams = append(p.streams, &watched{name: config.Name, subject: strings.TrimSuffix(config.Subjects[0], ">"), nc: l})
}

// wrote notes the outcome of a write. While all is well that costs nothing.
func (p *pulse) wrote(subject string, err error) {
	var refused *apiError
	switch {
	case err == nil && !p.bad.Load(), errors.Is(err, context.Canceled):
		return
	case errors.As(err, &refused) && refused.Code < http.StatusInternalServerError: // not for its own sake
		err = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.streams {
		if strings.HasPrefix(subject, s.subject) {
			s.wrote = err
		}
	}
	p.note()
}

// note sums up.
func (p *pulse) note() {
	bad := false
	for _, s := range p.streams {
		bad = bad || s.missed != nil || s.wrote != nil
	}
	p.bad.Store(bad)
}

// check is 5001 if a stream does not work.
func (p *pulse) check() error {
	if !p.bad.Load() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.streams {
		if s.missed != nil {
			return protocol.Wrap(protocol.StoreUnavailable, s.missed, fmt.Sprintf("stream %s does not answer", s.name))
		}
		if s.wrote != nil {
			return protocol.Wrap(protocol.StoreUnavailable, s.wrote, fmt.Sprintf("stream %s cannot be written", s.name))
		}
	}
	return nil
}

// beat looks at all streams until the store is closed.
func (p *pulse) beat() {
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.look()
		case <-p.store.run.Done():
			return
		}
	}
}

// look checks each stream, and writes to those that get no other writes soon, so
// that one failure is not remembered for ever.
func (p *pulse) look() {
	p.mu.Lock()
	streams := append([]*watched(nil), p.streams...)
	p.mu.Unlock()
	for _, s := range streams {
		ctx, cancel := context.WithTimeout(p.store.run, pulseEvery)
		_, missed := inspect(ctx, s.nc, s.name)
		cancel()
		p.mu.Lock()
		s.missed = missed
		failed := s.wrote
		p.note()
		p.mu.Unlock()
		if missed == nil && failed != nil {
			p.probe(s.name)
		}
	}
}

// probe writes to a stream that did not take the last write. The journal and
// the audit trail try again by themselves.
func (p *pulse) probe(stream string) {
	s := p.store
	ctx, cancel := context.WithTimeout(s.run, s.options.WriteTimeout)
	defer cancel()
	switch stream {
	case s.names.registry:
		_, _ = s.probes.Put(ctx, "probe", &probe{At: time.Now().UnixMilli()})
	case s.names.claims:
		_ = s.publishClaims(ctx, p.store.claims.newGroup())
	case s.names.tally:
		if t := s.view.tally(); t != nil {
			_ = s.storeTally(t)
		}
	}
}

// A probe is a record that a store writes to its registry to learn whether it can.
type probe struct {
	At int64 `json:"at"` // Unix milliseconds
}
