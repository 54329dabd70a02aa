package queue

import (
	"context"
	"math"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// dead ends the name of the queue of a queue's dead letters: NAME/dead. It has no topic:
// nothing is published to it.
const dead = "dead"

// Reasons for which a message is a dead letter, as RabbitMQ has them.
const (
	undeliverable = "delivery_limit"
	expired       = "expired"
)

// deadLetters is the queue of dead letters, nil if none are kept.
func (q *Queue) deadLetters() *Queue {
	if q.DeadLetters == 0 {
		return nil
	}
	return &Queue{
		Name: q.Name + "/" + dead, Space: q.Space, Messages: q.DeadLetters, Bytes: q.Bytes, Share: q.Share, Hours: q.Hours, Prefetch: q.Prefetch,
	}
}

// bury makes a message, of that revision, a dead letter, or deletes it where none are
// kept.
func (k *Keeper) bury(ctx context.Context, key string, m *Message, revision uint64, reason string) error {
	grave := k.queues[m.Queue+"/"+dead]
	if grave == nil {
		if err := k.Table.Delete(ctx, key, revision); err != nil {
			return err
		}
		k.died.WithLabelValues(m.Queue, reason).Inc()
		return nil
	}
	now := time.Now()
	own := *m
	own.Queue, own.Dead, own.With, own.Came = grave.Name, reason, "", m.came()
	own.At, own.Until, own.Expires = now.UnixNano(), now.Add(grave.life()).UnixNano(), 0
	if _, err := k.Table.Update(ctx, key, &own, revision); err != nil {
		return err
	}
	k.died.WithLabelValues(m.Queue, reason).Inc()
	k.makeRoom(ctx, grave, m.Space)
	return nil
}

// makeRoom deletes dead letters while there are too many. One that is put back into its
// queue meanwhile stays.
func (k *Keeper) makeRoom(ctx context.Context, grave *Queue, space protocol.SpaceID) {
	for ctx.Err() == nil {
		key := k.oldest(grave, space)
		if key == "" {
			return
		}
		m, revision, there := k.Table.Get(key)
		if !there || m.Queue != grave.Name {
			continue
		}
		err := k.Table.Delete(ctx, key, revision)
		if err == nil {
			k.displaced.Inc()
		} else if !records.Raced(err) {
			return // the next one that dies tries again
		}
	}
}

// oldest is the key of the dead letter that has to go, "" while there is room: the oldest
// of those whose publisher has more than its share, or of all.
func (k *Keeper) oldest(grave *Queue, space protocol.SpaceID) (key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.lines[lineKey{grave.Name, space}]
	if l == nil || l.in.messages <= grave.Messages && l.in.bytes <= grave.Bytes {
		return ""
	}
	share, at, greedy := grave.shareOf(grave.room()), int64(math.MaxInt64), false
	for of, e := range l.entries {
		has := l.of[e.by]
		more := has.messages > share.messages || has.bytes > share.bytes
		if e.lent || e.with != "" || greedy && !more {
			continue
		}
		if more && !greedy || e.at < at {
			key, at, greedy = of, e.at, more
		}
	}
	return key
}
