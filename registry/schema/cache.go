package schema

import "sync"

// A Cache keeps compiled schemas. It holds the most recently used ones, at
// most its size and at least half of it.
type Cache struct {
	mu         sync.Mutex
	young, old map[asked]*Schema
	half       int
}

// asked is a source, and how it is compiled.
type asked struct {
	Source
	formats Formats
}

// NewCache returns a cache for about size schemas.
func NewCache(size int) *Cache {
	half := max(size/2, 1)
	return &Cache{young: make(map[asked]*Schema), half: half}
}

// Get returns the compiled schema of a source, compiling it if need be.
func (c *Cache) Get(src Source, formats Formats) (*Schema, error) {
	key := asked{src, formats}
	c.mu.Lock()
	s, ok := c.young[key]
	if !ok {
		if s, ok = c.old[key]; ok {
			c.put(key, s)
		}
	}
	c.mu.Unlock()
	if ok {
		return s, nil
	}
	s, err := Compile(src, formats)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.put(key, s)
	c.mu.Unlock()
	return s, nil
}

func (c *Cache) put(key asked, s *Schema) {
	if len(c.young) >= c.half {
		c.old, c.young = c.young, make(map[asked]*Schema, c.half)
	}
	c.young[key] = s
}
