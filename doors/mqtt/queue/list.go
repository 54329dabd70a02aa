package queue

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/protocol"
)

var list = commands.Spec{
	Name:    "queue.list",
	Summary: "List queues of messages that wait for workers, with what is in them.",
	Effect:  commands.Read,
	Action:  "queue:list",
	Example: `{"sort":"-messages","limit":20}`,
}

// ListParams choose queues.
type ListParams struct {
	Space protocol.SpaceID `json:"space_id,omitempty" doc:"only queues of this space"`
	Find  string           `json:"find,omitempty" len:"1-128" doc:"only queues with this text in their name or topic, whatever its case"`
	Sort  string           `json:"sort,omitempty" enum:"id,-id,messages,-messages,bytes,-bytes" doc:"field to sort by, the highest first behind a minus; by id, the space and the name, if absent"`
	listing.Page
}

// A View is a queue of a space as callers see it.
type View struct {
	Queue      string           `json:"queue" doc:"name of the queue; NAME/dead has the dead letters of NAME"`
	Space      protocol.SpaceID `json:"space_id" doc:"id of the space whose queue it is"`
	Topic      string           `json:"topic,omitempty" doc:"topic filter of the messages that go into it; absent for dead letters"`
	Configured bool             `json:"configured" doc:"false for a queue that was taken out of the settings and still has messages"`
	Messages   int              `json:"messages" doc:"messages in it: those that wait, and those that workers have not acknowledged"`
	Bytes      int              `json:"bytes" doc:"their topics, payloads and properties"`
	Publishers int              `json:"publishers" doc:"publishers of these messages"`
	Workers    int              `json:"workers" doc:"clients that work for it, connected to the bridge that answers"`
	Oldest     int64            `json:"oldest_at,omitempty" doc:"time at which the message came that has waited longest for a worker, Unix milliseconds; absent if none waits"`
}

// ListResult is one page of queues.
type ListResult struct {
	Queues     []View `json:"queues" doc:"the queues of this page; empty if none fits"`
	Total      int    `json:"total" doc:"number on all pages"`
	NextCursor string `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// columns are those that lists of queues can be sorted by.
var columns = listing.Order[View]{
	ID: func(v View) string { return string(v.Space) + "/" + v.Queue },
	Keys: map[string]func(View) listing.Key{
		"messages": func(v View) listing.Key { return listing.Number(int64(v.Messages)) },
		"bytes":    func(v View) listing.Key { return listing.Number(int64(v.Bytes)) },
	},
}

// Commands are the commands of the family.
func (k *Keeper) Commands() []commands.Command {
	return []commands.Command{
		commands.New(list, k.List),
		commands.New(info, k.Info),
		commands.New(purge, k.Purge),
		commands.New(remove, k.Remove),
		commands.New(retry, k.Retry),
	}
}

// sees reports whether a principal may know of the queues of a space: of its own, and
// of all who may do everything.
func sees(who *protocol.Principal, space protocol.SpaceID) bool {
	return who.Home() == space || who.Unbounded()
}

// has reports whether a space has a queue of these settings.
func (q *Queue) has(space protocol.SpaceID) bool { return q.Space == "" || q.Space == string(space) }

// List shows the queues of the caller's space, and to administrators those of other
// spaces in which something is.
func (k *Keeper) List(_ context.Context, call *commands.Call, p ListParams) (ListResult, error) {
	named := listing.Find(p.Find)
	matching := func(yield func(View) bool) {
		for _, v := range k.views(call.Principal) {
			if (p.Space == "" || v.Space == p.Space) && named.In(v.Queue, v.Topic) && !yield(v) {
				return
			}
		}
	}
	found, err := columns.Select(matching, p.Sort, p.Page)
	if err != nil {
		return ListResult{}, err
	}
	for i := range found.Items {
		v := &found.Items[i]
		v.Workers = k.workers(lineKey{v.Queue, v.Space})
	}
	return ListResult{Queues: found.Items, Total: found.Total, NextCursor: found.Next}, nil
}

// views are the queues that a principal sees.
func (k *Keeper) views(who *protocol.Principal) (views []View) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, l := range k.lines {
		if len(l.entries) > 0 && sees(who, key.space) {
			views = append(views, k.view(key))
		}
	}
	for name, q := range k.queues {
		key := lineKey{name, who.Home()}
		if l := k.lines[key]; (l == nil || len(l.entries) == 0) && q.has(key.space) {
			views = append(views, k.view(key))
		}
	}
	return views
}

// view shows a queue but for its workers; mu is held.
func (k *Keeper) view(key lineKey) View {
	v := View{Queue: key.queue, Space: key.space}
	if q := k.queues[key.queue]; q != nil {
		v.Topic, v.Configured = q.Topic, q.has(key.space)
	}
	if l := k.lines[key]; l != nil {
		v.Messages, v.Bytes, v.Publishers = l.in.messages, l.in.bytes, len(l.of)
		v.Oldest = l.first() / 1e6
	}
	return v
}
