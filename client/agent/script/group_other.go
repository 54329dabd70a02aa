//go:build !unix

package script

import (
	"os/exec"
	"syscall"
	"time"
)

func ownGroup() *syscall.SysProcAttr { return nil }

// group is the script alone: there are no process groups here.
type group struct{ leader *exec.Cmd }

func (g *group) start(c *exec.Cmd) error { g.leader = c; return c.Start() }

func (g *group) terminate(time.Duration) { _ = g.leader.Process.Kill() } // it may be gone

func (g *group) wait(c *exec.Cmd) error { return c.Wait() }
