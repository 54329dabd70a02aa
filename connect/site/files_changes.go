package site

import (
	"sync"

	"github.com/aibridge/aibridge/protocol"
)

// A changedFile is a file that has changed here.
type changedFile struct {
	space       protocol.SpaceID
	group, path string
}

// mostChanges bounds the changed files that wait to follow. If there are more, everything is
// compared.
const mostChanges = 10_000

// fileChanges are the files that have changed here, while somebody asks.
type fileChanges struct {
	wake chan struct{}

	mu    sync.Mutex
	noted bool
	files map[changedFile]bool
	all   bool // there were too many
}

// FileChanged has a file of this bridge follow that has changed. It does not block. Those of
// other spaces never follow, and have nothing compared, however many change.
func (s *Site) FileChanged(space protocol.SpaceID, group, path string) {
	if home := s.homeSpace(); s.follows(group) && (home == "" || home == space) {
		s.changes.add(changedFile{space, group, path})
	}
}

func (c *fileChanges) add(f changedFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.noted {
		return
	}
	if len(c.files) < mostChanges {
		c.files[f] = true
	} else {
		c.all = true
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// begin begins to note changes.
func (c *fileChanges) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noted, c.files, c.all = true, map[changedFile]bool{}, false
}

func (c *fileChanges) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noted, c.files = false, nil
}

// drain yields the changes since it was last called. With all, others may have changed, too.
func (c *fileChanges) drain() (files map[changedFile]bool, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	files, all = c.files, c.all
	c.files, c.all = map[changedFile]bool{}, false
	return files, all
}
