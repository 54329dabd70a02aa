package queue

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/protocol"
)

var retry = commands.Spec{
	Name:    "queue.retry",
	Summary: "Put dead letters back into their queue, behind the messages that wait: all, those of one publisher, or one.",
	Effect:  commands.Write,
	Action:  "queue:retry",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied, protocol.InvalidState, protocol.LimitReached},
	Example: `{"queue":"jobs/dead"}`,
}

// RetryParams choose dead letters.
type RetryParams struct {
	Chosen
	By
	ID string `json:"queued_id,omitempty" len:"1-64" audit:"yes" doc:"only this message, as queue.info has it"`
}

// RetryResult says what was put back.
type RetryResult struct {
	Retried int `json:"retried" doc:"dead letters that were put back"`
	Left    int `json:"left" doc:"dead letters that are left: with workers, not chosen, without room in the queue, older than a message that waits on their topic (last_value), or for the next retry of 10000"`
}

// Retry puts dead letters that no worker has back into their queue, the oldest 10000, as
// far as there is room. They are given to as many workers as new ones.
func (k *Keeper) Retry(ctx context.Context, call *commands.Call, p RetryParams) (RetryResult, error) {
	grave, err := k.manage(call.Principal, p.Chosen)
	if err != nil {
		return RetryResult{}, err
	}
	name, isGrave := strings.CutSuffix(grave.queue, "/"+dead)
	q := k.queues[name]
	switch {
	case !isGrave:
		return RetryResult{}, protocol.Errorf(protocol.InvalidState, "queue: %q is no queue of dead letters; those of a queue are in NAME/dead", p.Queue).With("queue", p.Queue)
	case q == nil || !q.has(grave.space):
		return RetryResult{}, protocol.Errorf(protocol.NotFound, "the queue %q is not configured any more", name).With("queue", name)
	}
	keys := k.idle(grave, p.By)
	if p.ID != "" {
		keys = slices.DeleteFunc(keys, func(key string) bool { return key != p.ID })
		if len(keys) == 0 {
			return RetryResult{}, protocol.Errorf(protocol.NotFound, "no dead letter %q waits", p.ID).With("queued_id", p.ID)
		}
	}
	retried, lacking, err := k.reviveAll(ctx, q, grave, keys)
	if retried == 0 && err != nil {
		return RetryResult{}, err
	}
	if retried == 0 && lacking != "" {
		return RetryResult{}, protocol.Errorf(protocol.LimitReached, "%s", lacking).With("queue", name)
	}
	return RetryResult{Retried: retried, Left: k.count(grave)}, nil
}

// A corpse is a dead letter that is put back.
type corpse struct {
	key      string
	m        *Message
	revision uint64
}

// corpses are the dead letters of keys that no worker has, the oldest first; where only
// the newest message of each topic waits, the newest dead letter of each.
func (k *Keeper) corpses(q *Queue, grave lineKey, keys []string) (found []corpse) {
	for _, key := range keys {
		if m, revision, there := k.Table.Get(key); there && m.Queue == grave.queue && m.With == "" {
			found = append(found, corpse{key, m, revision})
		}
	}
	slices.SortFunc(found, func(a, b corpse) int {
		return cmp.Or(cmp.Compare(a.m.At, b.m.At), strings.Compare(a.key, b.key))
	})
	if !q.LastValue {
		return found
	}
	newest := make(map[string]corpse, len(found))
	for _, c := range found {
		if n, there := newest[c.m.Topic]; !there || n.m.came() <= c.m.came() {
			newest[c.m.Topic] = c
		}
	}
	return slices.DeleteFunc(found, func(c corpse) bool { return newest[c.m.Topic].key != c.key })
}

// reviveAll puts dead letters back, and counts them. lacking says in words whose room was
// used up, if there was not enough.
func (k *Keeper) reviveAll(ctx context.Context, q *Queue, grave lineKey, keys []string) (retried int, lacking string, err error) {
	var batch writes
	now := time.Now()
	for i, c := range k.corpses(q, grave, keys) {
		if ctx.Err() != nil {
			break
		}
		own := *c.m
		own.Queue, own.Dead, own.Tries, own.Came = q.Name, "", 0, c.m.came()
		own.At, own.Until = now.UnixNano()+int64(i), now.Add(q.life()).UnixNano()
		if q.LastValue && k.waits(&own) {
			continue
		}
		of, text := k.lacks(&own, false)
		if of != fair.OfNobody {
			lacking = text
			continue
		}
		end, open := k.begin(c.key, &own)
		if !open {
			err = protocol.Errorf(protocol.ShuttingDown, "the bridge is shutting down")
			break
		}
		batch.do(func() error {
			defer end()
			_, err := k.Table.Update(ctx, c.key, &own, c.revision)
			return err
		})
	}
	retried, failed := batch.wait()
	return retried, lacking, cmp.Or(err, failed, ctx.Err())
}

// waits reports whether a message waits on the topic of another one.
func (k *Keeper) waits(m *Message) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.lines[lineKey{m.Queue, m.Space}]
	return l != nil && l.newest(m.Topic) != nil
}

// count is the number of messages in a queue of a space.
func (k *Keeper) count(key lineKey) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.lines[key]; l != nil {
		return l.in.messages
	}
	return 0
}
