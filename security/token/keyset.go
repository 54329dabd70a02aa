package token

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// The times for which keys are believed.
const (
	refreshEvery = 5 * time.Minute  // in the background
	refreshSoon  = 10 * time.Second // at the earliest: after a failure, or for an unknown key
	keepKeys     = 24 * time.Hour   // without their source being reachable
)

// A keySet holds the keys of one issuer. It follows their source: in the
// background, and when a token names a key it does not know, but never more often
// than every ten seconds.
type keySet struct {
	name  string // of the issuer, for the log
	fetch func(ctx context.Context) ([]key, error)
	log   *slog.Logger
	now   func() time.Time

	mu      sync.Mutex
	keys    []key
	fetched time.Time     // when keys came
	tried   time.Time     // when they were last asked for
	busy    chan struct{} // closed when a fetch that is under way ends
	err     error         // of the last fetch
}

// find returns the keys that a token may have been signed with. One that names
// its key gets that one, or those that have no name.
func (s *keySet) find(ctx context.Context, algorithm, id string) ([]key, error) {
	found, current := s.look(algorithm, id)
	if len(found) > 0 && current {
		return found, nil
	}
	s.refresh(ctx, refreshSoon)
	found, current = s.look(algorithm, id)
	if !current {
		return nil, protocol.Errorf(protocol.TargetUnavailable, "the issuer's keys cannot be had at the moment")
	}
	return found, nil
}

// look returns the known keys. current is false when there are none.
func (s *keySet) look(algorithm, id string) (found []key, current bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil || s.now().Sub(s.fetched) > keepKeys {
		return nil, false
	}
	for _, k := range s.keys {
		if k.algorithm == algorithm && (id == "" || k.id == "" || k.id == id) {
			found = append(found, k)
		}
	}
	return found, true
}

// refresh fetches the keys unless that was tried within the interval. A caller that comes
// meanwhile waits for the outcome.
func (s *keySet) refresh(ctx context.Context, interval time.Duration) {
	s.mu.Lock()
	if busy := s.busy; busy != nil {
		s.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
		}
		return
	}
	if !s.tried.IsZero() && s.now().Sub(s.tried) < interval {
		s.mu.Unlock()
		return
	}
	s.tried = s.now()
	s.busy = make(chan struct{})
	s.mu.Unlock()

	// Others may wait for this fetch, so it does not end with the context of this caller.
	fetchCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	defer cancel()
	keys, err := s.fetch(fetchCtx)

	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.keys, s.fetched = keys, s.now()
	} else if s.err == nil {
		s.log.Warn("the keys of an issuer cannot be had", "issuer", s.name, "error", err)
	}
	s.err = err
	close(s.busy)
	s.busy = nil
}

// follow keeps the keys fresh until ctx ends.
func (s *keySet) follow(ctx context.Context) {
	for {
		s.refresh(ctx, 0)
		s.mu.Lock()
		pause := refreshEvery
		if s.err != nil {
			pause = refreshSoon
		}
		s.mu.Unlock()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// fromFile reads keys from a file. read tells the formats apart.
func fromFile(path string, read func(path string) ([]key, error)) func(context.Context) ([]key, error) {
	return func(context.Context) ([]key, error) { return read(path) }
}

func readKeySet(path string) ([]key, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseKeySet(data)
}

// one makes a list of a file with a single key.
func one(read func(path string) (key, error)) func(string) ([]key, error) {
	return func(path string) ([]key, error) {
		k, err := read(path)
		return []key{k}, err
	}
}
