package schema

import "sync"

// A Cache keeps compiled schemas. It holds the most recently used ones, at
// most its size and at least half of it.
type Cache struct {
	mu         sync.Mutex
	young, old map[Source]*Schema
	half       int
}

// NewCache returns a cache for about size schemas.
func NewCache(size int) *Cache {
	half := max(size/2, 1)
	return &Cache{young: make(map[Source]*Schema), half: half}
}

// Get returns the compiled schema of a source, compiling it if need be.
func (c *Cache) Get(src Source) (*Schema, error) {
	c.mu.Lock()
	s, ok := c.young[src]
	if !ok {
		if s, ok = c.old[src]; ok {
			c.put(src, s)
		}
	}
	c.mu.Unlock()
	if ok {
		return s, nil
	}
	s, err := Compile(src)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.put(src, s)
	c.mu.Unlock()
	return s, nil
}

func (c *Cache) put(src Source, s *Schema) {
	if len(c.young) >= c.half {
		c.old, c.young = c.young, make(map[Source]*Schema, c.half)
	}
	c.young[src] = s
}
