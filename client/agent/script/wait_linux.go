package script

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup makes the process the leader of a new process group, and has it
// killed when the thread that started it ends, as it does when the agent is
// killed itself.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// wait waits for the leader and kills the processes that it left behind. That
// happens before the leader is reaped: until then no other process can have its
// number, and processes that hold the pipes open are gone before the pipes are
// waited for.
func (g *group) wait(c *exec.Cmd) error {
	for unix.Waitid(unix.P_PID, c.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	g.kill()
	g.close()
	return c.Wait()
}
