package queue

import (
	"cmp"
	"context"

	"github.com/aibridge/aibridge/commands"
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
	Chosen
	By
}

// PurgeResult says what was deleted.
type PurgeResult struct {
	Removed int `json:"removed" doc:"messages that were deleted"`
	Left    int `json:"left" doc:"messages that are in the queue: with workers, come meanwhile, or for the next purge of 10000"`
}

// mostPurged is the number of messages that one command changes.
const mostPurged = 10_000

// Purge deletes messages that no worker has, the first 10000.
func (k *Keeper) Purge(ctx context.Context, call *commands.Call, p PurgeParams) (PurgeResult, error) {
	key, err := k.manage(call.Principal, p.Chosen)
	if err != nil {
		return PurgeResult{}, err
	}
	removed, err := k.deleteAll(ctx, key.queue, k.idle(key, p.By))
	if removed == 0 && err != nil {
		return PurgeResult{}, err
	}
	return PurgeResult{Removed: removed, Left: k.count(key)}, nil
}

// idle lists messages that no worker has, of those who are chosen.
func (k *Keeper) idle(key lineKey, by By) (keys []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.lines[key]
	if l == nil {
		return nil
	}
	for of, e := range l.entries {
		if e.lent || e.outdated || e.with != "" || !by.fits(publisherOf(e.by)) {
			continue
		}
		if keys = append(keys, of); len(keys) == mostPurged {
			break
		}
	}
	return keys
}

// deleteAll deletes messages of a queue, and counts them: those that no worker has taken,
// and that have not died or been put back, meanwhile.
func (k *Keeper) deleteAll(ctx context.Context, queue string, keys []string) (removed int, err error) {
	var batch writes
	for _, key := range keys {
		if ctx.Err() != nil {
			break
		}
		if m, revision, there := k.Table.Get(key); there && m.Queue == queue && m.With == "" {
			batch.do(func() error { return k.Table.Delete(ctx, key, revision) })
		}
	}
	removed, err = batch.wait()
	return removed, cmp.Or(err, ctx.Err())
}
