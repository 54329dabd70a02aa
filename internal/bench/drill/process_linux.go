package drill

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A process is a program that the drill starts, stops and starts again. It ends
// with the drill, however that ends.
type process struct {
	name string
	dir  string // where its log is
	argv []string

	mu     sync.Mutex
	pid    int           // 0 while it does not run
	exited chan struct{} // closed when it has
	wanted bool          // it is started again when it ends by itself
	gaveUp func()        // called when it ended by itself; optional
}

// start runs the program, again whenever it ends by itself, as a supervisor would.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = true
	if p.pid != 0 {
		return nil
	}
	return p.launch()
}

// launch runs the program once. p.mu is held.
func (p *process) launch() error {
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	// The environment variables of the user's own bridge must not apply to these.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AIBRIDGE_") })
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	exited, started := make(chan struct{}), make(chan error)
	go func() {
		// The kernel kills the process when the thread that started it ends.
		runtime.LockOSThread()
		defer log.Close()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the log has the reason of its end
			p.ended(exited)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	p.pid, p.exited = cmd.Process.Pid, exited
	return nil
}

// ended starts the program again if it ended by itself.
func (p *process) ended(exited chan struct{}) {
	p.mu.Lock()
	p.pid = 0
	again := p.wanted
	close(exited)
	p.mu.Unlock()
	if !again {
		return
	}
	if p.gaveUp != nil {
		p.gaveUp()
	}
	time.AfterFunc(restartAfter, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.wanted && p.pid == 0 {
			_ = p.launch()
		}
	})
}

// lastWords is the end of the log.
func (p *process) lastWords() string {
	const most = 2000
	log, err := os.ReadFile(p.log())
	if err != nil {
		return "nothing"
	}
	return string(log[max(len(log)-most, 0):])
}

func (p *process) called() string { return p.name }

func (p *process) log() string { return filepath.Join(p.dir, p.name+".log") }

// restartAfter is the pause of a supervisor.
const restartAfter = 500 * time.Millisecond

// signal sends a signal, if the program runs.
func (p *process) signal(signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid == 0 {
		return errors.New(p.name + " does not run")
	}
	return syscall.Kill(p.pid, signal)
}

// end sends a signal that ends the program, and waits until it has ended. It
// stays down until start.
func (p *process) end(signal syscall.Signal) {
	p.mu.Lock()
	p.wanted = false
	exited := p.exited
	running := p.pid != 0
	if running {
		_ = syscall.Kill(p.pid, signal)
	}
	p.mu.Unlock()
	if running {
		<-exited
	}
}

// retire waits until the program has ended, which asked has it do. It stays down until
// start.
func (p *process) retire(asked func() error) error {
	p.mu.Lock()
	p.wanted = false
	exited := p.exited
	p.mu.Unlock()
	if err := asked(); err != nil {
		return err
	}
	<-exited
	return nil
}

func (p *process) kill()      { p.end(syscall.SIGKILL) }
func (p *process) terminate() { p.end(syscall.SIGTERM) }
func (p *process) freeze()    { _ = p.signal(syscall.SIGSTOP) }
func (p *process) thaw()      { _ = p.signal(syscall.SIGCONT) }
