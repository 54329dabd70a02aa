package homeassistant

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// An Announcer is who made an announcement that was taken, as stored: after a
// restart the broker has the announcement alone. It is immutable.
type Announcer struct {
	Space  protocol.SpaceID `json:"space_id"`
	Topic  string           `json:"topic"`
	Digest string           `json:"digest"` // of the announcement
	By     grant.Grant      `json:"by"`
}

// Announcers know who made the announcements of a space. Who publishes one is
// noted while that is at hand, which is before anybody gets it.
type announcers struct {
	space protocol.SpaceID
	table records.Table[Announcer]
	most  int // topics that are noted at a time

	mu    sync.Mutex
	notes map[string][]note               // by topic, until what was published is taken
	known map[protocol.Party]*grant.Grant // the newest of each
}

// A note says who published a payload.
type note struct {
	digest string
	by     grant.Grant
}

// maxNotes bounds the notes of a topic. What was published before is not taken
// any more: something newer follows.
const maxNotes = 4

func newAnnouncers(space protocol.SpaceID, table records.Table[Announcer], most int) *announcers {
	return &announcers{
		space: space, table: table, most: most,
		notes: map[string][]note{}, known: map[protocol.Party]*grant.Grant{},
	}
}

// note notes who publishes an announcement. It does not block. Where there is no
// room any note gives way, so that those of announcements which were never
// delivered do not stay for good.
func (a *announcers) note(topic string, n note) {
	a.mu.Lock()
	defer a.mu.Unlock()
	notes, there := a.notes[topic]
	if !there && len(a.notes) >= a.most {
		a.evict()
	}
	if len(notes) == maxNotes {
		notes = notes[1:]
	}
	a.notes[topic] = append(notes, n)
}

// evict forgets the notes of a topic. It is called with the mutex.
func (a *announcers) evict() {
	for topic := range a.notes {
		delete(a.notes, topic)
		return
	}
}

// by is the author of an announcement that is delivered, nil if that is not known.
func (a *announcers) by(topic string, payload []byte) *grant.Grant {
	if len(payload) > maxAnnouncement {
		return nil
	}
	digest := digestOf(payload)
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, n := range a.notes[topic] {
		if n.digest != digest {
			continue
		}
		if a.notes[topic] = a.notes[topic][i+1:]; len(a.notes[topic]) == 0 {
			delete(a.notes, topic)
		}
		return a.once(n.by)
	}
	if stored, _, ok := a.table.Get(a.key(topic)); ok && stored.Digest == digest {
		return a.once(stored.By)
	}
	return nil
}

// same is [announcers.once] for callers without the mutex.
func (a *announcers) same(g grant.Grant) *grant.Grant {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.once(g)
}

// once is a grant as one of its party was known already, if they are equal.
func (a *announcers) once(g grant.Grant) *grant.Grant {
	if before := a.known[g.Party()]; before != nil && records.Same(before, &g) {
		return before
	}
	if len(a.known) >= a.most {
		clear(a.known)
	}
	a.known[g.Party()] = &g
	return &g
}

// writeWithin bounds one write of who announced something.
const writeWithin = 10 * time.Second

// keep stores who made an announcement, if that is not known yet.
func (a *announcers) keep(topic string, payload []byte, by *grant.Grant) error {
	r := &Announcer{Space: a.space, Topic: topic, Digest: digestOf(payload), By: *by}
	if stored, _, ok := a.table.Get(a.key(topic)); ok && records.Same(stored, r) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
	defer cancel()
	_, err := a.table.Put(ctx, a.key(topic), r)
	return err
}

// forget removes who made an announcement.
func (a *announcers) forget(topic string) error {
	if _, _, ok := a.table.Get(a.key(topic)); !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
	defer cancel()
	if err := a.table.Delete(ctx, a.key(topic), 0); protocol.CodeOf(err) != protocol.NotFound {
		return err
	}
	return nil
}

// stored are the topics of the announcements whose makers are stored.
func (a *announcers) stored() (topics []string) {
	for _, r := range a.table.All() {
		if r.Space == a.space {
			topics = append(topics, r.Topic)
		}
	}
	return topics
}

func (a *announcers) key(topic string) string { return string(a.space) + "/" + topic }

func digestOf(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}

// digestOfGrant is equal for equal grants.
func digestOfGrant(g *grant.Grant) string {
	sum := sha256.New()
	if err := records.Encode(sum, g); err != nil {
		panic(err) // of texts and times
	}
	return hex.EncodeToString(sum.Sum(nil))
}
