package queue

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/protocol"
)

var info = commands.Spec{
	Name:    "queue.info",
	Summary: "Show a queue: its bounds, who publishes to it, and its messages without their payloads.",
	Effect:  commands.Read,
	Action:  "queue:info",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"queue":"jobs","limit":20}`,
}

// InfoParams name a queue, and choose messages of it.
type InfoParams struct {
	Chosen
	By
	Find string `json:"find,omitempty" len:"1-128" doc:"only messages with this text in their topic or publisher, whatever its case"`
	Sort string `json:"sort,omitempty" enum:"id,-id,queued_at,-queued_at,topic,-topic,principal,-principal,bytes,-bytes,tries,-tries" doc:"field to sort by, the highest first behind a minus; by queued_at if absent"`
	listing.Page
}

// A Place is a message in a queue as callers see it. Its payload is for workers.
type Place struct {
	ID        string `json:"queued_id" doc:"id of the message in its queue"`
	At        int64  `json:"queued_at" doc:"time at which it came into the queue, Unix milliseconds"`
	Expires   int64  `json:"expires_at" doc:"time until which it waits, Unix milliseconds"`
	Topic     string `json:"topic" doc:"topic on which it was published"`
	Bytes     int    `json:"bytes" doc:"size of its payload"`
	Principal string `json:"principal,omitempty" doc:"publisher, as kind/id; absent for messages that an earlier release stored"`
	Bridge    string `json:"bridge,omitempty" doc:"process of the bridge whose worker has it, where several bridges work"`
	Tries     int    `json:"tries,omitempty" doc:"workers that had it and did not acknowledge it, where the queue bounds them"`
	Dead      string `json:"dead_reason,omitempty" doc:"reason for which it is a dead letter: delivery_limit or expired"`
}

// A Share is what one publisher has in a queue.
type Share struct {
	Principal string `json:"principal,omitempty" doc:"publisher, as kind/id; absent for messages that an earlier release stored"`
	Messages  int    `json:"messages" doc:"its messages"`
	Bytes     int    `json:"bytes" doc:"their bytes"`
}

// Bounds are the settings of a queue.
type Bounds struct {
	LastValue   bool `json:"last_value,omitempty" doc:"true if only the newest message of each topic waits"`
	Messages    int  `json:"messages" doc:"messages that may be in it"`
	Bytes       int  `json:"bytes" doc:"their bytes"`
	Share       int  `json:"share" doc:"percent of both that one publisher may have"`
	Hours       int  `json:"hours" doc:"hours that a message may wait"`
	Prefetch    int  `json:"prefetch" doc:"messages that a worker may have without having acknowledged them"`
	Deliveries  int  `json:"deliveries,omitempty" doc:"times that a message is given to a worker; absent for any number"`
	DeadLetters int  `json:"dead_letters,omitempty" doc:"dead letters that are kept; absent for none"`
}

// InfoResult is a queue and one page of its messages.
type InfoResult struct {
	View
	Bounds *Bounds `json:"bounds,omitempty" doc:"settings of the queue; absent if it is not configured any more"`
	// Most is bounded so that a queue of many publishers makes no large answer.
	Most       []Share `json:"most" doc:"the publishers with the most messages, 20 at most"`
	Places     []Place `json:"places" doc:"the messages of this page; empty if none fits"`
	Total      int     `json:"total" doc:"number on all pages"`
	NextCursor string  `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// mostShares is the number of publishers that are shown.
const mostShares = 20

// places holds the columns that messages of a queue can be sorted by.
var places = listing.Order[Place]{
	ID: func(p Place) string { return p.ID },
	Keys: map[string]func(Place) listing.Key{
		"queued_at": func(p Place) listing.Key { return listing.Number(p.At) },
		"topic":     func(p Place) listing.Key { return listing.Text(p.Topic) },
		"principal": func(p Place) listing.Key { return listing.Text(p.Principal) },
		"bytes":     func(p Place) listing.Key { return listing.Number(int64(p.Bytes)) },
		"tries":     func(p Place) listing.Key { return listing.Number(int64(p.Tries)) },
	},
	Default: "queued_at",
}

// Info shows a queue of the caller's space, to administrators one of any.
func (k *Keeper) Info(_ context.Context, call *commands.Call, p InfoParams) (InfoResult, error) {
	key, err := k.find(call.Principal, p.Chosen)
	if err != nil {
		return InfoResult{}, err
	}
	r, keys := k.look(key)
	named := listing.Find(p.Find)
	matching := func(yield func(Place) bool) {
		for _, at := range keys {
			m, _, there := k.Table.Get(at)
			if !there || m.Queue != key.queue {
				continue
			}
			v := m.place(at)
			if p.fits(v.Principal) && named.In(v.Topic, v.Principal) && !yield(v) {
				return
			}
		}
	}
	found, err := places.Select(matching, p.Sort, p.Page)
	if err != nil {
		return InfoResult{}, err
	}
	r.Workers = k.workers(key)
	r.Places, r.Total, r.NextCursor = found.Items, found.Total, found.Next
	return r, nil
}

// look reads a line.
func (k *Keeper) look(key lineKey) (r InfoResult, keys []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r.View = k.view(key)
	if q := k.queues[key.queue]; q != nil {
		r.Bounds = &Bounds{q.LastValue, q.Messages, q.Bytes, q.Share, q.Hours, q.Prefetch, q.Deliveries, q.DeadLetters}
	}
	r.Most = []Share{}
	l := k.lines[key]
	if l == nil {
		return r, nil
	}
	for by, has := range l.of {
		r.Most = append(r.Most, Share{publisherOf(by), has.messages, has.bytes})
	}
	slices.SortFunc(r.Most, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Principal, b.Principal))
	})
	r.Most = slices.Clip(r.Most[:min(len(r.Most), mostShares)])
	for of, e := range l.entries {
		if !e.outdated {
			keys = append(keys, of)
		}
	}
	return r, keys
}

// publisherOf is a publisher without its space: kind/id.
func publisherOf(by string) string {
	_, of, _ := strings.Cut(by, "/")
	return of
}

// published reports whether a publisher, as kind/id, is the one that was named so, or by
// its id alone.
func published(of, named string) bool {
	_, id, _ := strings.Cut(of, "/")
	return of == named || id == named
}

func (m *Message) place(key string) Place {
	until := m.Until
	if m.Expires != 0 {
		until = min(until, m.Expires)
	}
	return Place{
		ID: key, At: m.At / 1e6, Expires: until / 1e6, Topic: m.Topic, Bytes: len(m.Payload), Principal: publisherOf(m.By),
		Bridge: m.With, Tries: m.Tries, Dead: m.Dead,
	}
}
