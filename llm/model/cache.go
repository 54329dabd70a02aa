package model

import (
	"cmp"
	"container/list"
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	"github.com/aibridge/aibridge/llm/chat"
)

// A cacheKey is a query and the principals that may see its answer.
type cacheKey struct {
	space string
	sum   [32]byte
}

// keyOf is the key of a query of a principal, "" for the whole space. A request that
// cannot be encoded has none, since it equals no other.
func keyOf(space, principal, model string, r *chat.Request) (key cacheKey, ok bool) {
	raw, err := json.Marshal(struct {
		Principal, Model string
		Request          *chat.Request
	}{principal, model, r})
	if err != nil {
		return cacheKey{}, false
	}
	return cacheKey{space, sha256.Sum256(raw)}, true
}

const defaultCacheBytes = 16 << 20

// An answerCache keeps the answers to repeatable queries that were used last, up to a
// number of bytes for each space.
type answerCache struct {
	now func() time.Time

	mu     sync.Mutex
	spaces map[string]*spaceAnswers
}

// CacheStatus is the use of a space's cache.
type CacheStatus struct {
	Answers int   `json:"answers" doc:"answers that are kept for the space"`
	Bytes   int   `json:"bytes" doc:"bytes of these"`
	Limit   int   `json:"limit_bytes" doc:"most that are kept for a space, in bytes"`
	TTL     int64 `json:"ttl_ms" doc:"time for which an answer is kept, in milliseconds; 0 without a cache"`
	Shared  bool  `json:"shared" doc:"true if an answer is shared by all principals of the space"`
}

// status is the use of a space's cache.
func (c *answerCache) status(space string, config CacheConfig) CacheStatus {
	st := CacheStatus{Limit: cmp.Or(config.Bytes, defaultCacheBytes), TTL: config.TTL.Milliseconds(), Shared: config.Shared}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.spaces[space]; s != nil {
		st.Answers, st.Bytes = s.used.Len(), s.bytes
	}
	return st
}

type spaceAnswers struct {
	bytes int
	byKey map[cacheKey]*list.Element
	used  list.List // of *kept, the last used in front
}

type kept struct {
	key   cacheKey
	reply *Reply
	bytes int
	until time.Time
}

func newAnswerCache(now func() time.Time) *answerCache {
	return &answerCache{now: now, spaces: make(map[string]*spaceAnswers)}
}

func (c *answerCache) get(key cacheKey) *Reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.spaces[key.space]
	if s == nil || s.byKey[key] == nil {
		return nil
	}
	e := s.byKey[key]
	k := e.Value.(*kept)
	if !c.now().Before(k.until) {
		s.remove(e)
		return nil
	}
	s.used.MoveToFront(e)
	return k.reply
}

func (c *answerCache) put(key cacheKey, o *Reply, config CacheConfig) {
	limit := config.Bytes
	if limit == 0 {
		limit = defaultCacheBytes
	}
	size := 256
	for _, s := range o.Answer.Segments {
		size += len(s.Text) + len(s.Data) + len(s.UI) + 64
		if s.ToolCall != nil {
			size += len(s.ToolCall.Args) + len(s.ToolCall.Raw)
		}
		if s.Opaque != nil {
			size += len(s.Opaque.Data)
		}
	}
	if size > limit/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.spaces[key.space]
	if s == nil {
		s = &spaceAnswers{byKey: make(map[cacheKey]*list.Element)}
		c.spaces[key.space] = s
	}
	if e := s.byKey[key]; e != nil {
		s.remove(e)
	}
	s.byKey[key] = s.used.PushFront(&kept{key, o, size, c.now().Add(config.TTL)})
	for s.bytes += size; s.bytes > limit; {
		s.remove(s.used.Back())
	}
}

func (s *spaceAnswers) remove(e *list.Element) {
	k := s.used.Remove(e).(*kept)
	delete(s.byKey, k.key)
	s.bytes -= k.bytes
}

// clear deletes all answers, as after a change of the configuration.
func (c *answerCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.spaces)
}
