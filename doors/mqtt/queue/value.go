package queue

import (
	"context"

	"github.com/aibridge/aibridge/internal/records"
)

// A value is the messages of a topic in a queue of which only the newest of each topic
// waits. Each of them has a record of its own until those that came before are deleted:
// so a message whose storing was not confirmed can be stored again without a worker
// having it twice. The newest one is given out once it is the only one; if it were
// acknowledged before, an older one that a bridge had no time to delete would be the
// newest for those that start later. A dead letter that was put back is as old as it was.
type value struct {
	newest   *entry
	outdated map[*entry]bool
}

// enter takes a message in as one of its topic.
func (l *line) enter(e *entry) {
	if l.values == nil {
		l.values = make(map[string]*value)
	}
	v := l.values[e.topic]
	if v == nil {
		v = &value{outdated: make(map[*entry]bool)}
		l.values[e.topic] = v
	}
	old := v.newest
	switch {
	case old == nil:
		v.newest = e
		return
	case e.older(old):
		old = e
	default:
		v.newest = e
	}
	l.count(old, load{-1, -old.size})
	old.outdated = true
	l.withdraw(old)
	v.outdated[old] = true
}

// leave has a message be one of its topic no more.
func (l *line) leave(e *entry) {
	v := l.values[e.topic]
	if v.newest == e {
		v.newest = nil
	}
	delete(v.outdated, e)
	switch {
	case len(v.outdated) > 0:
	case v.newest == nil:
		delete(l.values, e.topic)
	case v.newest.with == "" && !v.newest.lent:
		l.enqueue(v.newest)
	}
}

// newest is the entry of the newest message of a topic, nil for none.
func (l *line) newest(topic string) *entry {
	if v := l.values[topic]; v != nil {
		return v.newest
	}
	return nil
}

// held reports whether a message is not given out: it is outdated, or the newest of a
// topic with messages that are.
func (l *line) held(e *entry) bool {
	return e.outdated || l.queue.LastValue && len(l.values[e.topic].outdated) > 0
}

// An oldie names a message that is outdated, in the queue where it was.
type oldie struct{ key, queue string }

// outdatedOf lists the outdated messages of the topic of a message.
func (k *Keeper) outdatedOf(m *Message) (found []oldie) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.lines[lineKey{m.Queue, m.Space}]; l != nil {
		found = l.values[m.Topic].list(m.Queue, nil)
	}
	return found
}

// mostOutdated bounds what is listed of outdated messages, so that deleting them does
// not keep a bridge from giving out others.
const mostOutdated = 256

// allOutdated lists outdated messages of all queues: bridges have died that would have
// deleted them, or are about to.
func (k *Keeper) allOutdated() (found []oldie) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, l := range k.lines {
		for _, v := range l.values {
			if found = v.list(key.queue, found); len(found) >= mostOutdated {
				return found
			}
		}
	}
	return found
}

func (v *value) list(queue string, found []oldie) []oldie {
	if v == nil {
		return found
	}
	for e := range v.outdated {
		found = append(found, oldie{e.key, queue})
	}
	return found
}

// dropOutdated deletes outdated messages, also those that workers have. What cannot be
// deleted now is found again.
func (k *Keeper) dropOutdated(ctx context.Context, outdated []oldie) {
	for _, o := range outdated {
		for ctx.Err() == nil {
			m, revision, there := k.Table.Get(o.key)
			if !there || m.Queue != o.queue { // a dead letter meanwhile
				break
			}
			if err := k.Table.Delete(ctx, o.key, revision); !records.Raced(err) {
				break
			}
		}
	}
}
