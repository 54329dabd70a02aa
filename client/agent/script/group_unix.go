//go:build unix

package script

import (
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// group is the process group of a script: the script and all it started,
// except what left the group by itself (setsid).
type group struct {
	mu   sync.Mutex
	id   int  // 0 before the start
	over bool // the leader ended: its number may soon be another's
	last *time.Timer
}

// start starts the leader.
func (g *group) start(c *exec.Cmd) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := c.Start(); err != nil {
		return err
	}
	g.id = c.Process.Pid
	return nil
}

// terminate asks all of the group to end and kills it when grace is over.
func (g *group) terminate(grace time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over || g.id == 0 || g.last != nil {
		return
	}
	_ = syscall.Kill(-g.id, syscall.SIGTERM) // it may be gone, which is as good
	g.last = time.AfterFunc(grace, g.kill)
}

// kill kills all of the group.
func (g *group) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		_ = syscall.Kill(-g.id, syscall.SIGKILL) // see terminate
	}
}

// close says that the leader ended and nothing is to be signalled any more.
func (g *group) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	if g.last != nil {
		g.last.Stop()
	}
}
