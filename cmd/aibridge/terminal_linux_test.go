package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal makes a terminal: what is written to its end for programs is read
// at ours.
func openTerminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	fd := int(ours.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skipf("the terminal cannot be opened: %v", err)
	}
	return ours, theirs
}

// onTerminal runs the program on a terminal and returns what it shows.
func onTerminal(t *testing.T, path string, env []string, args ...string) string {
	t.Helper()
	ours, theirs := openTerminal(t)
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout = theirs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	var shown bytes.Buffer
	_, _ = io.Copy(&shown, ours) // until EIO: nobody has the other end open
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, shown.String())
	}
	return shown.String()
}

func TestStatesAreColouredOnATerminal(t *testing.T) {
	bridge := startBinary(t, t.TempDir())
	list := []string{"key", "list", "--data", bridge.data}
	if shown := onTerminal(t, bridge.path, []string{"TERM=xterm", "NO_COLOR="}, list...); !strings.Contains(shown, green+"live"+uncoloured) {
		t.Errorf("%q", shown)
	}
	if shown := onTerminal(t, bridge.path, []string{"TERM=xterm", "NO_COLOR=1"}, list...); strings.Contains(shown, "\x1b") || !strings.Contains(shown, "live") {
		t.Errorf("with NO_COLOR: %q", shown)
	}
	if shown := onTerminal(t, bridge.path, []string{"TERM=xterm", "NO_COLOR="}, append(list, "-o", "json")...); strings.Contains(shown, "\x1b") {
		t.Errorf("as JSON: %q", shown)
	}
	out, _, _ := run(t, bridge, append(list, "--color", "always")...)
	if !strings.Contains(out, green+"live"+uncoloured) {
		t.Errorf("asked for, in a pipe: %q", out)
	}
}
