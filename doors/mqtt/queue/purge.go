package queue

import (
	"context"
	"sync"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

var purge = commands.Spec{
	Name:    "queue.purge",
	Summary: "Delete the messages of a queue that wait, or those of one publisher.",
	Effect:  commands.Write,
	Action:  "queue:purge",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied},
	Example: `{"queue":"jobs"}`,
}

// PurgeParams name a queue.
type PurgeParams struct {
	Queue     string           `json:"queue" len:"1-69" audit:"yes" doc:"name of the queue; NAME/dead for the dead letters of NAME"`
	Space     protocol.SpaceID `json:"space_id,omitempty" audit:"yes" doc:"space of the queue; that of the caller if absent"`
	Principal string           `json:"principal,omitempty" len:"1-256" audit:"yes" doc:"only messages of this publisher, as kind/id or its id alone"`
}

// Target is the queue.
func (p PurgeParams) Target() commands.Resource {
	return commands.Resource{Type: "queue", ID: p.Queue}
}

// PurgeResult says what was deleted.
type PurgeResult struct {
	Removed int `json:"removed" doc:"messages that were deleted"`
	Left    int `json:"left" doc:"messages that are in the queue: with workers, come meanwhile, or for the next purge of 10000"`
}

// Bounds of one purge: the messages that it deletes, and how many at once.
const (
	mostPurged = 10_000
	atOnce     = 32
)

// Purge deletes messages that no worker has, the first 10000.
func (k *Keeper) Purge(ctx context.Context, call *commands.Call, p PurgeParams) (PurgeResult, error) {
	key, err := k.find(call.Principal, p.Queue, p.Space)
	if err != nil {
		return PurgeResult{}, err
	}
	if !call.Principal.Manages(key.space) {
		return PurgeResult{}, protocol.Errorf(protocol.PermissionDenied, "the queues of a space are its operators'").With("queue", p.Queue)
	}
	removed, err := k.deleteAll(ctx, k.idle(key, p.Principal))
	if removed == 0 && err != nil {
		return PurgeResult{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r := PurgeResult{Removed: removed}
	if l := k.lines[key]; l != nil {
		r.Left = l.in.messages
	}
	return r, nil
}

// idle lists messages that no worker has, of one publisher if that is named.
func (k *Keeper) idle(key lineKey, principal string) (keys []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.lines[key]
	if l == nil {
		return nil
	}
	for of, e := range l.entries {
		if e.lent || e.outdated || e.with != "" || principal != "" && !published(publisherOf(e.by), principal) {
			continue
		}
		if keys = append(keys, of); len(keys) == mostPurged {
			break
		}
	}
	return keys
}

// deleteAll deletes messages that no worker has taken meanwhile, and counts them.
func (k *Keeper) deleteAll(ctx context.Context, keys []string) (removed int, err error) {
	var (
		mu    sync.Mutex
		work  sync.WaitGroup
		slots = make(chan struct{}, atOnce)
	)
	for _, key := range keys {
		if ctx.Err() != nil {
			break
		}
		m, revision, there := k.Table.Get(key)
		if !there || m.With != "" {
			continue
		}
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			failed := k.Table.Delete(ctx, key, revision)
			mu.Lock()
			defer mu.Unlock()
			if failed == nil {
				removed++
			} else if !records.Raced(failed) {
				err = failed
			}
		})
	}
	work.Wait()
	if err == nil {
		err = ctx.Err()
	}
	return removed, err
}
