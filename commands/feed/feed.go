// Package feed is one live stream of the events of a bridge: agents that come and
// go, tasks, approvals, workflows, Caps, scenes. It serves callers that do not
// speak MQTT, such as a browser: event.follow hands them the events that the bridge
// publishes on its event topics, and an interrupted stream goes on where it ended.
//
// A follower hears what it could hear as an MQTT client, no more: an event that is for
// it, on a topic that it may subscribe to, both judged when it is sent. The latest events
// are kept in memory, bounded; a follower that was away for longer is told that events
// were missed, and reads its state anew.
package feed

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// Options configure a [Feed]. Topics and MayHear are needed.
type Options struct {
	Topics protocol.Topics
	// MayHear reports whether a principal may subscribe to a topic.
	MayHear func(who *protocol.Principal, topic string) bool
	// Check fails if a principal's credential is no longer valid. Optional.
	Check func(who *protocol.Principal) error

	Most  int           // events kept, default 8192
	Bytes int           // of these, default 8 MiB
	Pace  time.Duration // events are handed on this often at most, default 50 ms
	Beat  time.Duration // interval of the messages to a follower without events, default 10 s
}

func (o *Options) setDefaults() {
	if o.Check == nil {
		o.Check = func(*protocol.Principal) error { return nil }
	}
	if o.Most <= 0 {
		o.Most = 8192
	}
	if o.Bytes <= 0 {
		o.Bytes = 8 << 20
	}
	if o.Pace <= 0 {
		o.Pace = 50 * time.Millisecond
	}
	if o.Beat <= 0 {
		o.Beat = 10 * time.Second
	}
}

// A Feed keeps the latest events and hands them to followers. [Feed.Run] must
// run.
type Feed struct {
	Options
	process string // identifies the process of a cursor

	wake chan struct{} // holds one token while there is something to hand on

	mu        sync.Mutex
	kept      []event // the oldest first
	bytes     int
	last      uint64 // number of the latest event, from 1
	followers map[*follower]struct{}
}

// An event is a message that the bridge has published.
type event struct {
	number uint64
	to     protocol.Recipients
	family string
	topic  string
	body   json.RawMessage // event envelope
}

// New makes a feed.
func New(o Options) *Feed {
	o.setDefaults()
	return &Feed{Options: o, process: rand.Text()[:8], wake: make(chan struct{}, 1), followers: make(map[*follower]struct{})}
}

// Commands are the commands of the family.
func (f *Feed) Commands() []commands.Command {
	return []commands.Command{commands.NewAsync(eventFollow, f.follow)}
}

// Published takes note of a message of the bridge, if it is an event. It is called for
// every message that the bridge publishes, requests to agents among them; it does not
// block and keeps nothing of other messages.
func (f *Feed) Published(to protocol.Recipients, m protocol.Message) {
	family, ok := f.familyOf(m.Topic)
	if !ok {
		return
	}
	body := bytes.Clone(m.Payload)
	f.mu.Lock()
	f.last++
	f.kept = append(f.kept, event{f.last, to, family, m.Topic, body})
	f.bytes += len(body)
	drop := 0
	for len(f.kept)-drop > f.Most || f.bytes > f.Bytes && len(f.kept)-drop > 1 {
		f.bytes -= len(f.kept[drop].body)
		drop++
	}
	f.kept = f.kept[drop:]
	f.mu.Unlock()
	f.signal()
}

// familyOf is the family of an event by its topic: "agent" of event/agent,
// "task" of task/x/event.
func (f *Feed) familyOf(topic string) (string, bool) {
	rest, ok := f.Topics.Under(topic)
	if !ok {
		return "", false
	}
	if family, ok := strings.CutPrefix(rest, "event/"); ok {
		return family, true
	}
	if !strings.HasSuffix(rest, "/event") {
		return "", false
	}
	family, _, _ := strings.Cut(rest, "/")
	return family, family == "task" || family == "cap" || family == "scene"
}

func (f *Feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// lookEvery is the interval at which followers are looked at whose time may be over.
const lookEvery = 500 * time.Millisecond

// Run hands events on until ctx ends.
func (f *Feed) Run(ctx context.Context) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	pace := time.NewTimer(0)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		case <-f.wake:
		}
		f.serve(time.Now())
		pace.Reset(f.Pace)
		select {
		case <-pace.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// serve lets every follower have the events new to it.
func (f *Feed) serve(now time.Time) {
	f.mu.Lock()
	all := make([]*follower, 0, len(f.followers))
	for w := range f.followers {
		all = append(all, w)
	}
	f.mu.Unlock()
	for _, w := range all {
		for w.serve(f, now) { // a batch at a time
		}
	}
}

// since returns the events after a number, bounded, and whether some that came
// after it are gone.
func (f *Feed) since(number uint64) (events []event, missed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if number >= f.last {
		return nil, false
	}
	first := f.last - uint64(len(f.kept)) + 1
	missed = number+1 < first
	skip := 0
	if !missed {
		skip = int(number + 1 - first)
	}
	return f.kept[skip:min(skip+maxBatch, len(f.kept))], missed
}

func (f *Feed) latest() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// cursor is the place behind an event.
func (f *Feed) cursor(number uint64) string {
	return f.process + "-" + strconv.FormatUint(number, 36)
}

// position reads a cursor. One of another process, or of events that have not
// been, is not ok.
func (f *Feed) position(cursor string) (number uint64, ok bool) {
	process, digits, _ := strings.Cut(cursor, "-")
	number, err := strconv.ParseUint(digits, 36, 64)
	return number, err == nil && process == f.process && number <= f.latest()
}
