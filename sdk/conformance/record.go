package conformance

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// The kinds of things that a bridge sees.
type kind int

const (
	authenticated kind = iota + 1 // text is the secret
	refused                       // a wrong credential; text is the secret
	renewed
	connected
	disconnected // by the device or the broker; text is the reason
	cut          // the broker has learned that the proxy cut the connection
	listening    // the device hears requests
	command
	answer    // a response or an event of the agent
	violation // text is what the device may not do
)

// A sighting is one thing that a bridge saw.
type sighting struct {
	kind     kind
	client   string
	text     string
	request  *protocol.Request // of a command
	answered bool              // whether it was with success
	envelope protocol.Envelope // of an answer
	payload  []byte
}

// A record has all that a bridge saw, in order.
type record struct {
	mu      sync.Mutex
	all     []sighting
	changed chan struct{} // closed when there is more
}

func (r *record) add(s sighting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, s)
	close(r.changed)
	r.changed = make(chan struct{})
}

// here is the place after all that was seen by now.
func (r *record) here() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// since are the sightings from a place on, and a channel that is closed when
// there are more.
func (r *record) since(place int) ([]sighting, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[min(place, len(r.all)):], r.changed
}

// await waits for a sighting from a place on and yields the place after it.
// what says for the error what never came.
func (r *record) await(ctx context.Context, patience time.Duration, place int, what string, match func(*sighting) bool) (int, *sighting, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		seen, more := r.since(place)
		for i := range seen {
			if place++; match(&seen[i]) {
				return place, &seen[i], nil
			}
		}
		select {
		case <-more:
		case <-ctx.Done():
			return place, nil, ctx.Err()
		case <-timer.C:
			return place, nil, fmt.Errorf("it never did this (%s waited): %s", patience, what)
		}
	}
}

// count is the number of sightings from a place on that match.
func (r *record) count(place int, match func(*sighting) bool) int {
	seen, _ := r.since(place)
	n := 0
	for i := range seen {
		if match(&seen[i]) {
			n++
		}
	}
	return n
}
