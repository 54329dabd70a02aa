package nats

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/aibridge/aibridge/protocol"
)

// A tally counts the outcomes of requests, by keys, at most [maxListed] of them.
// Its zero value is ready.
type tally struct {
	mu    sync.Mutex
	stats map[string]*micro.EndpointStats
}

// note counts a request. A key that clients can invent is counted from its first success
// on.
func (t *tally) note(key string, began time.Time, err *protocol.Error, inventable bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	stats := t.stats[key]
	if stats == nil {
		if inventable && err != nil {
			return
		}
		if t.stats == nil {
			t.stats = make(map[string]*micro.EndpointStats)
		}
		if len(t.stats) > maxListed {
			for any := range t.stats { // skills come and go
				delete(t.stats, any)
				break
			}
		}
		stats = &micro.EndpointStats{}
		t.stats[key] = stats
	}
	stats.NumRequests++
	stats.ProcessingTime += time.Since(began)
	if err != nil {
		stats.NumErrors++
		stats.LastError = string(err.Code) // its text is for the caller
	}
}

// of are the counts of a key.
func (t *tally) of(key string) micro.EndpointStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.stats[key]
	if known == nil {
		return micro.EndpointStats{}
	}
	stats := *known
	stats.AverageProcessingTime = stats.ProcessingTime / time.Duration(stats.NumRequests)
	return stats
}
