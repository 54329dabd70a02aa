package client

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// maxCached bounds the answers kept.
const maxCached = 256

// A cache keeps answers to questions about metadata. It works only while the
// bridge's events arrive, which drop the answers that they concern.
type cache struct {
	now func() time.Time

	mu      sync.Mutex
	active  bool
	version uint64 // grows with every drop: answers to earlier requests are not kept
	entries map[string]cached
}

type cached struct {
	family  string // of the command
	result  []byte
	expires time.Time
}

func newCache() *cache { return &cache{now: time.Now, entries: make(map[string]cached)} }

// lifetime is the time for which an answer to a command may be kept at most
// (docs/protocol.md#answers-that-may-be-kept), 0 for not at all.
func lifetime(command string) time.Duration {
	switch command {
	case "skill.discover":
		return 30 * time.Minute
	case "agent.get", "agent.list", "policy.list", "policy.explain":
		return 10 * time.Minute
	case "resource.get", "resource.list":
		return time.Minute
	}
	return 0
}

// changes reports whether a command may change the answers of others.
func changes(command string) bool {
	return command != "skill.invoke" && command != "agent.heartbeat"
}

// concerns reports whether an event or a command of one family may change the
// answers of another: skills are shown with the presence of their agents, and
// agents with their skills.
func concerns(changed, answers string) bool {
	if changed == answers || changed == "batch" {
		return true
	}
	switch answers {
	case "skill", "agent":
		return changed == "agent" || changed == "skill"
	case "policy":
		return changed == "security" || changed == "key" || changed == "cert"
	}
	return false
}

func familyOf(command string) string {
	family, _, _ := strings.Cut(command, ".")
	return family
}

// eventFamily is the family that a message on an event topic is about.
func eventFamily(topics protocol.Topics, topic string) (string, bool) {
	family, ok := strings.CutPrefix(topic, topics.Event(""))
	return family, ok && family != "" && !strings.Contains(family, "/")
}

// get returns an earlier answer, and the version to put a new answer with.
func (x *cache) get(command string, params []byte) (result []byte, version uint64, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e, ok := x.entries[command+string(params)]
	if !ok || !x.active || x.now().After(e.expires) {
		return nil, x.version, false
	}
	return slices.Clone(e.result), x.version, true
}

// put keeps the answer to a request that was sent at a version.
func (x *cache) put(command string, params, result []byte, version uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.active || version != x.version {
		return
	}
	if len(x.entries) >= maxCached {
		clear(x.entries)
	}
	x.entries[command+string(params)] = cached{familyOf(command), result, x.now().Add(lifetime(command))}
}

// drop forgets the answers that a change in a family may have changed.
func (x *cache) drop(family string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.version++
	for key, e := range x.entries {
		if concerns(family, e.family) {
			delete(x.entries, key)
		}
	}
}

// resume begins to keep answers: events arrive.
func (x *cache) resume() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.active = true
	x.version++
}

// suspend forgets everything: events may be missed.
func (x *cache) suspend() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.active = false
	x.version++
	clear(x.entries)
}
