package mirror

import "sync"

// maxCachedChunks bounds the sums of a cache: of files of 16 GiB together, in
// 2 MiB of memory.
const maxCachedChunks = 1 << 16

// A chunkCache keeps the sums of the chunks of large contents that were read, or
// asked for, lately. So a file that changes again and again is read once each time,
// and the VFS is not asked to read it too. A wrong sum does no harm: the result is
// compared as a whole.
type chunkCache struct {
	mu    sync.Mutex
	sums  map[Sum][]Sum
	count int
}

// get returns the sums of a content, nil if they are not known.
func (c *chunkCache) get(content Sum) []Sum {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sums[content]
}

// put notes the sums of a content. If there are too many, all others go.
func (c *chunkCache) put(content Sum, sums []Sum) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(sums) > maxCachedChunks || c.sums[content] != nil {
		return
	}
	if c.sums == nil || c.count+len(sums) > maxCachedChunks {
		c.sums, c.count = make(map[Sum][]Sum), 0
	}
	c.sums[content] = sums
	c.count += len(sums)
}

// empty reports whether nothing is known.
func (c *chunkCache) empty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sums) == 0
}
