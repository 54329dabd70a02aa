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

// An Announcer is the record of the publisher of an announcement that was taken:
// after a restart the broker has the announcement alone. It is immutable.
type Announcer struct {
	Space  protocol.SpaceID `json:"space_id"`
	Topic  string           `json:"topic"`
	Digest string           `json:"digest"` // of the announcement
	By     grant.Grant      `json:"by"`
}

// Announcers know the publishers of the announcements of a space. A publisher is
// noted while its message is being published, before that is delivered.
type announcers struct {
	space protocol.SpaceID
	table records.Table[Announcer]
	most  int // topics that are noted at a time

	mu    sync.Mutex
	notes map[string][]note               // by topic, until the announcement is taken
	known map[protocol.Party]*grant.Grant // the newest of each
}

// A note names the publisher of a payload.
type note struct {
	digest string
	by     grant.Grant
}

// maxNotes bounds the notes of a topic. Older announcements are not taken any more,
// as newer ones follow.
const maxNotes = 4

func newAnnouncers(space protocol.SpaceID, table records.Table[Announcer], most int) *announcers {
	return &announcers{
		space: space, table: table, most: most,
		notes: map[string][]note{}, known: map[protocol.Party]*grant.Grant{},
	}
}

// note notes the publisher of an announcement. It does not block. Without room any
// note gives way, so that the notes of announcements that are never delivered do
// not stay for good.
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

// by is the announcer of a delivered announcement, nil if that is not known.
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

// writeWithin bounds the write of one Announcer.
const writeWithin = 10 * time.Second

// keep stores the announcer of an announcement, unless it is stored already.
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

// forget removes the announcer of a topic.
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

// stored are the topics of the announcements whose announcers are stored.
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
