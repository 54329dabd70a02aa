//go:build unix

package mount

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/aibridge/aibridge/llm/run/fault"
)

func TestPipesAreNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Skip(err)
	}
	f, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := read(t, f, "pipe"); fault.CodeOf(err) != fault.Sandbox {
		t.Errorf("read: %v", err)
	}
	if err := f.List(t.Context(), "pipe", func(Info) bool { return true }); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("list: %v", err)
	}
	for name, write := range map[string]func() error{
		"write":  func() error { return f.Write(t.Context(), "pipe", []byte("x"), WriteOptions{}) },
		"append": func() error { return f.Append(t.Context(), "pipe", []byte("x")) },
		"walk":   func() error { return f.Walk(t.Context(), "pipe", nil, func(Entry) bool { return true }) },
	} {
		if err := write(); fault.CodeOf(err) != fault.Sandbox {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := list(t, f, ""); got != nil {
		t.Errorf("listed %v", got)
	}
}

func TestWhatMayNotBeReadIsAViolation(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("nothing is kept from the superuser")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := read(t, f, "secret"); fault.CodeOf(err) != fault.Sandbox {
		t.Errorf("read: %v", err)
	}
}

const writerFolder = "AIBRIDGE_TEST_WRITER"

// TestWriterThatIsKilled is the process that the next test kills.
func TestWriterThatIsKilled(t *testing.T) {
	dir := os.Getenv(writerFolder)
	if dir == "" {
		t.Skip("only as a process of another test")
	}
	f, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		if err := f.Write(t.Context(), "state", bytes.Repeat([]byte{'a' + byte(i%26)}, 200_000), WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		fmt.Println("written")
	}
}

func TestAKilledWriterLeavesAWholeFile(t *testing.T) {
	dir := t.TempDir()
	for round := range 5 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWriterThatIsKilled$")
		cmd.Env = append(os.Environ(), writerFolder+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for i := 0; i <= round && lines.Scan(); i++ {
			continue // it is writing again by the time it is killed
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		text, err := os.ReadFile(filepath.Join(dir, "state"))
		if err != nil || len(text) != 200_000 || len(bytes.Trim(text, string(text[:1]))) != 0 {
			t.Fatalf("after it was killed the file has %d bytes, %v", len(text), err)
		}
	}
	f, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.List(t.Context(), "", func(i Info) bool {
		if i.Path != "state" && i.Path[0] != '.' {
			t.Errorf("%s was left behind in sight", i.Path)
		}
		return true
	}); err != nil {
		t.Error(err)
	}
}
