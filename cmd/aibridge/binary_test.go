package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/app"
)

// buildDir holds the binary while the tests of the package run.
var buildDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "aibridge-test-")
	if err != nil {
		panic(err)
	}
	buildDir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// build makes the real binary, once for all tests of the package.
var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "aibridge")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// A binary is a bridge that runs as a process of its own.
type binary struct {
	path, data string
	addresses  app.Addresses
	cmd        *exec.Cmd
	log        *bytes.Buffer
	ended      chan struct{}
}

// startBinary runs the bridge on the data folder and waits until it says
// where it listens. It ends with the test.
func startBinary(t *testing.T, data string, flags ...string) *binary {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(data, "addresses.json"))
	b := &binary{path: path, data: data, log: new(bytes.Buffer), ended: make(chan struct{})}
	b.cmd = exec.Command(path, append([]string{
		"serve", "--data", data, "--mqtt", "127.0.0.1:0", "--http", "127.0.0.1:0", "--ws", "127.0.0.1:0"}, flags...)...)
	b.cmd.Stdout, b.cmd.Stderr = b.log, b.log
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = b.cmd.Wait()
		close(b.ended)
	}()
	t.Cleanup(b.kill)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if b.addresses, err = app.ReadAddresses(data); err == nil {
			return b
		}
		select {
		case <-b.ended:
			t.Fatalf("the bridge ended:\n%s", b.log)
		default:
		}
		if time.Now().After(deadline) {
			b.kill()
			t.Fatalf("the bridge does not come up:\n%s", b.log)
		}
	}
}

// kill ends the process at once, as a crash would.
func (b *binary) kill() {
	_ = b.cmd.Process.Kill()
	<-b.ended
}
