package mcp

import (
	"context"
	"encoding/json"
	"sync"
)

// calls are the calls of single messages that are under way, so that a later
// message can cancel them.
type calls struct {
	mu   sync.Mutex
	open map[string]context.CancelFunc // by caller and id
}

func newCalls() *calls { return &calls{open: make(map[string]context.CancelFunc)} }

// enter adds a call, unless one with the same id is under way.
func (c *calls) enter(key string, cancel context.CancelFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.open[key]; taken {
		return false
	}
	c.open[key] = cancel
	return true
}

func (c *calls) leave(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, key)
}

// cancel ends a call of a caller, if it is under way.
func (c *calls) cancel(caller, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel, ok := c.open[caller+"\x00"+id]; ok {
		cancel()
	}
}

// idOf is the id of a call that a notification names, as JSON has it.
func idOf(id any) string {
	text, err := json.Marshal(id)
	if err != nil || id == nil {
		return ""
	}
	return string(text)
}
