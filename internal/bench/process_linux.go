package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aibridge/aibridge/internal/gate"
)

// A process is a broker that was started for one run.
type process struct {
	address netip.AddrPort
	pid     int
	output  *tail
	dir     string
	exited  chan struct{}
	begun   time.Time
}

// startBroker starts the peer's program in a directory of its own and waits until it
// answers a CONNECT. With answer it answers questions itself.
func startBroker(ctx context.Context, p Peer, over Over, answer bool) (*process, error) {
	b, err := newProcess()
	if err != nil {
		return nil, err
	}
	if b.address, err = freeAddress(); err != nil {
		b.stop()
		return nil, err
	}
	argv, err := p.commandOver(over, b.address.String(), b.dir)
	if err != nil {
		b.stop()
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	b.begun = time.Now()
	if err := b.start(argv, answer); err != nil {
		b.stop()
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	if err := b.awaitReady(ctx, over, p.version()); err != nil {
		b.stop()
		return nil, fmt.Errorf("%s does not answer: %w; it said: %s", p.Name, err, b.output)
	}
	return b, nil
}

// commandOver is the command for a transport.
func (p Peer) commandOver(over Over, address, dir string) ([]string, error) {
	switch over {
	case OverTCP:
		return p.Command(address, dir)
	case OverTLS, OverHTTP2:
		if err := writeCertificate(dir); err != nil {
			return nil, err
		}
	}
	return p.Over(over, address, dir)
}

// newProcess returns a process that is not started yet, in a directory of its own.
func newProcess() (*process, error) {
	raiseFileLimit()
	dir, err := os.MkdirTemp("", "aibridge-bench-")
	if err != nil {
		return nil, err
	}
	return &process{output: &tail{}, dir: dir, exited: make(chan struct{})}, nil
}

// start runs the command. It is killed when this process ends, however it
// ends: the kernel does that when the thread that started it is gone, so one
// waits for it.
func (b *process) start(argv []string, answer bool) error {
	if len(argv) == 0 {
		return errors.New("no command")
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = b.dir
	if answer {
		cmd.Env = append(os.Environ(), answerEnv+"=1")
	}
	cmd.Stdout, cmd.Stderr = b.output, b.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer close(b.exited)
		err := cmd.Start()
		if err == nil {
			b.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // its outcome does not matter: stop kills it
		}
	}()
	return <-started
}

func (b *process) awaitReady(ctx context.Context, over Over, version byte) error {
	return b.await(ctx, func() error { return probe(ctx, b.address, over, version) })
}

// await tries something until it succeeds, the process has ended, or a minute is over.
func (b *process) await(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-b.exited:
			return errors.New("it has ended")
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// probe connects once.
func probe(ctx context.Context, address netip.AddrPort, over Over, version byte) error {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	switch over {
	case OverHTTP, OverHTTP2, OverMCP, OverLLM: // it listens, which is all that there is to wait for
		return nil
	case OverTLS:
		conn = tls.Client(conn, clientTLS())
	case OverWebSocket: // the server of the upgrade serves MQTT as well
		return upgrade(conn)
	}
	if _, err := conn.Write(connectPacket(version, "bench-probe", 0)); err != nil {
		return err
	}
	var answer [4]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return err
	}
	if answer[0] != packetConnack || answer[3] != 0 {
		return fmt.Errorf("CONNECT was answered by % x", answer)
	}
	_, _ = conn.Write([]byte{packetDisconn, 0})
	return nil
}

// stop ends the process and removes its directory.
func (b *process) stop() {
	if b.pid != 0 {
		_ = syscall.Kill(-b.pid, syscall.SIGKILL)
		<-b.exited
	}
	_ = os.RemoveAll(b.dir)
}

// freeAddress returns a free loopback address.
func freeAddress() (address netip.AddrPort, err error) {
	for range 100 {
		// Below the range from which the system assigns ports.
		address = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(10_000+rand.IntN(20_000)))
		var l net.Listener
		if l, err = net.Listen("tcp4", address.String()); err == nil {
			return address, l.Close()
		}
	}
	return netip.AddrPort{}, err
}

// raiseFileLimit raises the limit of open files to its maximum, for this process and
// its children, and has this one's table hold what a run may take.
func raiseFileLimit() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
	_ = gate.Reserve(maxConnections) // or the load would pause now and then while they are made
}

// sample takes the figures of one moment of a run.
func sample(pid int, l *load) moment {
	var own unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &own)
	return moment{
		at:       time.Now(),
		received: l.received.Load(),
		broker:   processorTimeOf(pid),
		own:      time.Duration(own.Utime.Nano() + own.Stime.Nano()),
		machine:  machineTime(),
		memory:   memoryOf(pid),

		transfers: transfersOf(pid),
	}
}

// transfersOf is the number of system calls of a process that have read or written,
// from /proc/PID/io; 0 if it is gone.
func transfersOf(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/io")
	if err != nil || pid == 0 {
		return 0
	}
	return parseTransfers(text)
}

func parseTransfers(text []byte) (sum int64) {
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if name == "syscr" || name == "syscw" {
			n, _ := strconv.ParseInt(value, 10, 64)
			sum += n
		}
	}
	return sum
}

// processorTimeOf is the processor time of all threads of a process, from
// /proc/PID/stat, in steps of 10 ms; 0 if it is gone.
func processorTimeOf(pid int) time.Duration {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil || pid == 0 {
		return 0
	}
	return parseProcessorTime(stat)
}

func parseProcessorTime(stat []byte) time.Duration {
	// The name, in parentheses, may hold anything: count from behind it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 on Linux
}

// machineTime is the processor time of all processes and the time stolen by other
// virtual machines, since the start of the machine. Interrupts belong to no process and
// are not counted.
func machineTime() time.Duration {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(first)
	var ticks int64
	for _, i := range []int{1, 2, 3, 8} { // user, nice, system, steal
		if i < len(fields) {
			n, _ := strconv.ParseInt(fields[i], 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// memoryOf is the resident memory of a process in bytes, 0 if it is gone.
func memoryOf(pid int) int64 {
	statm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	fields := strings.Fields(string(statm))
	if err != nil || pid == 0 || len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// A tail keeps the end of a process's output.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const most = 2000
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - most; over > 0 {
		t.text = t.text[:copy(t.text, t.text[over:])]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
