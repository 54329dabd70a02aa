package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/freeport"
	"github.com/aibridge/aibridge/internal/gobuild"
	"github.com/aibridge/aibridge/internal/listen"
)

// buildDir holds the binary while the tests of the package run.
var buildDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "aibridge-test-")
	if err != nil {
		panic(err)
	}
	buildDir = dir
	stormKills = os.Getenv("AIBRIDGE_STORM")
	_ = os.Unsetenv("AIBRIDGE_STORM") // the program refuses variables that mean nothing
	parkedCalls = os.Getenv("AIBRIDGE_PARKED")
	_ = os.Unsetenv("AIBRIDGE_PARKED")
	earlierProgram = os.Getenv("AIBRIDGE_EARLIER")
	_ = os.Unsetenv("AIBRIDGE_EARLIER")
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// build makes the real binary, once for all tests of the package.
var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "aibridge")
	out, err := gobuild.Command(context.Background(), "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// A binary is a bridge that runs as a process of its own.
type binary struct {
	path, data string
	addresses  listen.Addresses
	cmd        *exec.Cmd
	log        *bytes.Buffer
	ended      chan struct{}
}

// startBinary runs the bridge on the data folder and waits until it says
// where it listens. It ends with the test.
func startBinary(t testing.TB, data string, flags ...string) *binary {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return startProgram(t, path, data, flags...)
}

// startProgram is startBinary with a program that may be of another release.
func startProgram(t testing.TB, path, data string, flags ...string) *binary {
	t.Helper()
	deadline := time.Now().Add(bridgetest.Patience)
	for {
		b := &binary{path: path, data: data, log: new(bytes.Buffer), ended: make(chan struct{})}
		if b.start(t, deadline, flags...) {
			return b
		}
		// Somebody else has a port for a moment.
		if !bytes.Contains(b.log.Bytes(), []byte("address already in use")) || time.Now().After(deadline) {
			t.Fatalf("the bridge ended:\n%s", b.log)
		}
	}
}

// start runs the process until it listens, or has ended by itself.
func (b *binary) start(t testing.TB, deadline time.Time, flags ...string) bool {
	t.Helper()
	b.launch(t, flags...)
	return b.listens(t, deadline)
}

// launch runs the process.
func (b *binary) launch(t testing.TB, flags ...string) {
	t.Helper()
	_ = os.Remove(filepath.Join(b.data, "addresses.json"))
	b.cmd = exec.Command(b.path, append([]string{
		"serve", "--data", b.data, "--mqtt", freeAddress(), "--mqtts", freeAddress(), "--http", freeAddress(), "--ws", freeAddress()}, flags...)...)
	b.cmd.Stdout, b.cmd.Stderr = b.log, b.log
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = b.cmd.Wait()
		close(b.ended)
	}()
	cmd := b.cmd
	t.Cleanup(func() {
		b.kill()
		if t.Failed() && b.cmd == cmd { // the last one of those that had this log
			t.Logf("the bridge printed\n%s", b.log)
		}
	})
}

// listens waits until the process says where it listens, or has ended by itself.
func (b *binary) listens(t testing.TB, deadline time.Time) bool {
	t.Helper()
	for ; ; time.Sleep(5 * time.Millisecond) {
		var err error
		if b.addresses, err = listen.ReadAddresses(b.data); err == nil {
			return true
		}
		select {
		case <-b.ended:
			return false
		default:
		}
		if time.Now().After(deadline) {
			b.kill()
			t.Fatalf("the bridge does not come up:\n%s", b.log)
		}
	}
}

// freeAddress is an address that no other test is given.
func freeAddress() string { return freeport.Address() }

// kill ends the process at once, as a crash would.
func (b *binary) kill() {
	_ = b.cmd.Process.Kill()
	<-b.ended
}

// stop ends the process as a supervisor does.
func (b *binary) stop(t *testing.T) {
	t.Helper()
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-b.ended:
	case <-time.After(bridgetest.Patience):
		t.Fatalf("the bridge does not end:\n%s", b.log)
	}
}
