package drill

import (
	"context"
	"math"
	"strings"
	"sync/atomic"
	"time"
)

// A load controls whether clients begin new operations.
type load struct {
	on   atomic.Bool
	busy atomic.Int64 // number of operations under way
}

// wait pauses for d, and then until the load is on. It reports false if ctx ended.
func (l *load) wait(ctx context.Context, d time.Duration) bool {
	for pause(ctx, d) {
		if l.on.Load() {
			return true
		}
		d = 10 * time.Millisecond
	}
	return false
}

// pause waits for d. It reports false if ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A publisher publishes one stream.
type publisher struct {
	*session
	stream string
	qos    byte
	retain bool
	number int
}

// topicFlow is below which streams are published.
const topicFlow = "drill/flow"

// run publishes while there is load, until ctx ends.
func (p *publisher) run(ctx context.Context, l *load, every time.Duration) {
	for l.wait(ctx, every) {
		if p.publish(topicFlow+"/"+p.stream, p.stream, p.number+1, p.qos, p.retain) {
			p.number++
		}
	}
}

// parseMessage parses the payload of a publisher.
func parseMessage(payload []byte) (stream string, number int, ok bool) {
	stream, digits, ok := strings.Cut(string(payload), " ")
	for _, d := range digits {
		if d < '0' || d > '9' || number > math.MaxInt32/10-1 {
			return "", 0, false
		}
		number = number*10 + int(d-'0')
	}
	return stream, number, ok && digits != ""
}
