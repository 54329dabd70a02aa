package data

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/freeport"
)

// A process is a program that a test may kill and start again.
type process struct {
	path  string
	args  []string
	as    *syscall.Credential
	env   []string
	cmd   *exec.Cmd
	ended chan struct{}
	at    string // address of a pipeline's own HTTP server
	log   output
}

// An output is the text that a process has written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

// said is the text that the process has written last.
func (p *process) said() string {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	text := p.log.text.String()
	return text[max(0, len(text)-4000):]
}

func (p *process) start(t *testing.T) {
	t.Helper()
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) { _ = cmd.Wait(); close(ended) }(p.cmd, p.ended)
	t.Cleanup(func() { p.end(syscall.SIGKILL) })
}

// end sends a signal and waits for the end.
func (p *process) end(signal syscall.Signal) {
	_ = p.cmd.Process.Signal(signal)
	<-p.ended
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// built are the bridge and the program, built once.
var built = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "connect-data")
	if err != nil {
		return "", err
	}
	for name, in := range map[string]string{"aibridge": "../..", "aibridge-connect": "."} {
		cmd := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(folder, name), "./cmd/"+name)
		cmd.Dir, cmd.Env = in, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			return folder, fmt.Errorf("build %s: %w\n%s", name, err, text)
		}
	}
	return folder, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if folder, err := built(); err == nil {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}

func program(t *testing.T, name string) string {
	t.Helper()
	folder, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, name)
}

// newBridge runs a bridge that lets everybody in, and tells its MQTT address.
func newBridge(t *testing.T, flags ...string) (bridge *process, url string) {
	t.Helper()
	address := freeport.Address()
	bridge = &process{path: program(t, "aibridge"), args: []string{"serve", "--dev", "--data", t.TempDir(),
		"--mqtt", address, "--mqtts", "off", "--http", freeport.Address(), "--ws", freeport.Address()}}
	bridge.args = append(bridge.args, flags...)
	bridge.start(t)
	return bridge, "mqtt://" + address
}

// newPipeline runs an example, and waits until it is connected. The variables are those
// of its file.
func newPipeline(t *testing.T, example string, variables ...string) *process {
	t.Helper()
	p := pipelineOf(t, "examples/"+example+".yaml", variables...)
	p.connected(t)
	return p
}

// pipelineOf starts a pipeline.
func pipelineOf(t *testing.T, file string, variables ...string) *process {
	t.Helper()
	address := freeport.Address()
	p := &process{path: program(t, "aibridge-connect"), env: variables, at: address,
		args: []string{"run", "--set", "http.address=" + address, "--set", "shutdown_timeout=60s", file}}
	p.start(t)
	return p
}

// connected waits until the input and the output of a pipeline are.
func (p *process) connected(t *testing.T) {
	t.Helper()
	eventually.Holds(t, "the pipeline is connected", func() bool {
		response, err := http.Get("http://" + p.at + "/ready")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, func() any { return p.said() })
}

// postgresProgram finds a program of PostgreSQL, which Debian does not put in PATH.
func postgresProgram(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		t.Skipf("%s is not installed (Debian: apt install postgresql)", name)
	}
	return found[len(found)-1]
}

// newPostgres runs a server of the test's own on a unix socket, and tells the URL of
// its database.
func newPostgres(t *testing.T) (server *process, url string) {
	t.Helper()
	initdb, postgres := postgresProgram(t, "initdb"), postgresProgram(t, "postgres")
	as := notRoot(t)
	folder := folderOf(t, as)
	data := filepath.Join(folder, "data")
	prepare := exec.Command(initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	prepare.Dir, prepare.SysProcAttr = folder, &syscall.SysProcAttr{Credential: as}
	if out, err := prepare.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	server = &process{path: postgres, as: as, args: []string{"-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "dynamic_shared_memory_type=mmap"}}
	server.start(t)
	url = "postgres:///postgres?user=postgres&host=" + folder
	ready(t, server, url)
	return server, url
}

// ready waits for a server, and starts it again while what a killed one left behind
// keeps it from running.
func ready(t *testing.T, server *process, url string) {
	t.Helper()
	eventually.Holds(t, "PostgreSQL answers", func() bool {
		if !server.running() {
			server.start(t)
		}
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			return false
		}
		return c.Close(context.Background()) == nil
	})
}

// folderOf makes a folder that as owns. For another user than the test's own it is not
// in TMPDIR, which may be closed to others. Its name is short, as that of a socket is.
func folderOf(t *testing.T, as *syscall.Credential) string {
	t.Helper()
	parent := ""
	if as != nil {
		parent = "/tmp"
	}
	folder, err := os.MkdirTemp(parent, "pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if as != nil {
		if err := os.Chown(folder, int(as.Uid), int(as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// notRoot is the user that PostgreSQL runs as where the test is root, which it refuses.
func notRoot(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		t.Skip("there is no user postgres")
	}
	uid, _ := strconv.Atoi(who.Uid)
	gid, _ := strconv.Atoi(who.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
