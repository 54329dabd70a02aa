//go:build unix && !linux

package script

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the process the leader of a new process group.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// wait waits for the leader and its pipes, for those not longer than the
// command's WaitDelay, and then kills the processes that the leader left behind.
func (g *group) wait(c *exec.Cmd) error {
	err := c.Wait()
	g.kill()
	g.close()
	return err
}
