package policy

import (
	"hash/maphash"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// keptFor is the time that a decision is kept at most (source: ten minutes). It is
// dropped before, the moment anything changes that it may depend on.
const keptFor = 10 * time.Minute

// Bounds of the cache, in decisions.
const (
	shards       = 16
	mostPerShard = 4096
)

// A key is everything a decision can depend on. A value that no policy looks at is
// left out, so that a decision serves many calls.
type key struct {
	subject *subject
	action  string
	family  string
	id      string
	space   protocol.SpaceID
	door    string
	sender  string
	address netip.Addr
	cap     string // of a topic, as kind and own
	kind    string
	own     bool
}

// A kept decision holds while nothing has changed.
type kept struct {
	allowed bool
	epoch   uint64 // of policies
	facts   uint64 // of the registry; 0 if the decision does not depend on it
	until   int64  // Unix nanoseconds

	differs *Difference // counts the decisions that policies on trial would make otherwise, nil if there are none
}

// decision is the decision once more.
func (d *kept) decision(now time.Time) Decision {
	if d.differs != nil {
		d.differs.again(now)
	}
	return d.answer()
}

func (d *kept) answer() Decision {
	if d.differs != nil { // which is counted here, every time
		return Decision{Allowed: d.allowed, Tried: true}
	}
	return Decision{Allowed: d.allowed, Until: time.Unix(0, d.until)}
}

// A cache keeps decisions. A part that is full is emptied: its active subjects come back
// at once.
type cache struct {
	seed  maphash.Seed
	parts [shards]shard
}

type shard struct {
	most      int
	mu        sync.RWMutex
	subjects  map[uint64][]*subject
	decisions map[key]kept
}

func newCache(most int) *cache {
	c := &cache{seed: maphash.MakeSeed()}
	for i := range c.parts {
		c.parts[i].most = most
		c.parts[i].clear()
	}
	return c
}

func (p *shard) clear() {
	p.subjects = make(map[uint64][]*subject)
	p.decisions = make(map[key]kept)
}

// subject returns the subject of a principal and the part that keeps its
// decisions.
func (c *cache) subject(who *protocol.Principal) (*subject, *shard) {
	h := hashOf(c.seed, who)
	p := &c.parts[h%shards]
	p.mu.RLock()
	for _, s := range p.subjects[h] {
		if s.is(who) {
			p.mu.RUnlock()
			return s, p
		}
	}
	p.mu.RUnlock()
	s := newSubject(who)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.subjects) >= p.most || len(p.subjects[h]) >= 16 {
		p.clear()
	}
	p.subjects[h] = append(p.subjects[h], s)
	return s, p
}

func (p *shard) get(k *key) (kept, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	d, ok := p.decisions[*k]
	return d, ok
}

// put keeps a decision. The key's texts may lie in a buffer of the caller.
func (p *shard) put(k *key, d kept) {
	k.action, k.id, k.sender, k.cap = strings.Clone(k.action), strings.Clone(k.id), strings.Clone(k.sender), strings.Clone(k.cap)
	k.family, k.space = strings.Clone(k.family), protocol.SpaceID(strings.Clone(string(k.space)))
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.decisions) >= p.most {
		p.clear()
	}
	p.decisions[*k] = d
}
