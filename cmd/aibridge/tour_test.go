package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/listen"
)

// A step is a few lines of a page and what they must print.
type step struct {
	script string
	want   string // each line of it is somewhere in the output; "" when nothing is promised
}

// sectionOf is the part of a page below a heading.
func sectionOf(t *testing.T, page, heading string) string {
	t.Helper()
	_, section, ok := strings.Cut(page, "\n## "+heading)
	if !ok {
		t.Fatalf("the page has no %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// settingsOf writes the settings that a section shows between <<'YAML' and YAML to a
// file, and returns its path.
func settingsOf(t *testing.T, section string) string {
	t.Helper()
	_, rest, _ := strings.Cut(section, "<<'YAML'\n")
	settings, _, found := strings.Cut(rest, "YAML\n")
	if !found {
		t.Fatal("the page has no settings")
	}
	config := filepath.Join(t.TempDir(), "bridge.yaml")
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// tour reads the steps out of a section of a page: the lines of its sh
// blocks, cut at every "# → text" line.
func tour(section string) []step {
	var steps []step
	for _, block := range strings.Split(section, "```sh\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		var script []string
		for line := range strings.Lines(block) {
			if want, ok := strings.CutPrefix(line, "# → "); ok {
				steps = append(steps, step{strings.Join(script, ""), strings.TrimSpace(want)})
				script = nil
			} else {
				script = append(script, line)
			}
		}
		if len(script) > 0 {
			steps = append(steps, step{strings.Join(script, ""), ""})
		}
	}
	return steps
}

// TestTheTourWorksAsWritten runs every line of the tour in one
// shell, against the real binary: in bash and in zsh, the shell of macOS. Only
// addresses are adapted, because the ports of the tour may be taken on the
// machine that tests.
func TestTheTourWorksAsWritten(t *testing.T) {
	for _, name := range []string{"bash", "zsh"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			takeTheTour(t, name)
		})
	}
}

func takeTheTour(t *testing.T, shellName string) {
	for _, tool := range []string{shellName, "mosquitto_pub", "mosquitto_sub", "mosquitto_rr", "curl", "pkill"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	page, err := os.ReadFile("../../docs/tour.md")
	if err != nil {
		t.Fatal(err)
	}
	bridge := startBinary(t, t.TempDir(), "--dev")
	shell := startShellNamed(t, shellName, bridge)
	far := freeAddress()
	steps := tour(sectionOf(t, string(page), "A tour"))
	if len(steps) < 8 {
		t.Fatalf("found only %d steps in the tour", len(steps))
	}
	for i, step := range steps {
		step.script = strings.ReplaceAll(step.script, "127.0.0.1:9012", far)
		shell.take(t, i, step)
	}
}

// TestAShellOfThePagesLeavesMessagesAlone has the digits of a port in the id that a
// device reads out of a request.
func TestAShellOfThePagesLeavesMessagesAlone(t *testing.T) {
	for _, name := range []string{"bash", "zsh"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(name); err != nil {
				t.Skipf("%s is not installed", name)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "mosquitto_pub"), []byte("#!/bin/sh\nprintf '<%s>' \"$@\"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			shell := startShellNamed(t, name, &binary{
				path: filepath.Join(dir, "aibridge"), data: dir,
				addresses: listen.Addresses{MQTT: "127.0.0.1:1", MQTTS: "127.0.0.1:2", HTTP: "127.0.0.1:3"},
			})
			got := shell.run(t, 0, `id=088830b3-4; mosquitto_pub -p 8883 -m '{"id":"'$id'"}' -t ''`+"\n")
			if want := `<-p><1><-p><2><-m><{"id":"088830b3-4"}><-t><>`; got != want {
				t.Errorf("the client is called with %s, not with %s", got, want)
			}
		})
	}
}

// take runs a step, which must print what it promises.
func (s *shell) take(t *testing.T, i int, step step) {
	t.Helper()
	// What runs in the background needs a moment; a person would just type
	// the line again. Raw requests are sent once: their ids are fixed.
	deadline := time.Now().Add(2 * bridgetest.Patience) // it may have to be compiled
	for script := step.script; ; script = withoutStarts(step.script) {
		out := s.run(t, i, script)
		if prints(out, step.want) {
			return
		}
		if time.Now().After(deadline) || !repeatable.MatchString(step.script) {
			t.Fatalf("step %d\n%s\nmust print %q, but printed\n%s\nEarlier steps, and what they left running, printed%s", i, step.script, step.want, out, s.printed(i))
		}
		time.Sleep(50 * time.Millisecond) // the pace of the poll
	}
}

// withoutStarts is a script behind the last line that starts a program in the
// background: that runs already.
func withoutStarts(script string) string {
	if i := strings.LastIndex(script, " &\n"); i >= 0 {
		return script[i+len(" &\n"):]
	}
	return script
}

// repeatable finds commands that a person would type again: reads, calls of which
// each has an id of its own, and retained messages.
var repeatable = regexp.MustCompile(`(?m)\baibridge (call|skill|approvals$|task get|audit|cluster status)|\bmosquitto_pub .*-r `)

func prints(out, want string) bool {
	for line := range strings.Lines(want) {
		if !strings.Contains(out, strings.TrimSpace(line)) {
			return false
		}
	}
	return true
}

type shell struct {
	in  io.Writer
	out *bufio.Reader
	dir string
}

// startShell starts bash as startShellNamed does.
func startShell(t *testing.T, b *binary) *shell {
	t.Helper()
	return startShellNamed(t, "bash", b)
}

// startShellNamed starts bash or zsh without its start-up files, in a folder
// that looks like the repository's, with the mosquitto clients, curl and
// aibridge led to the bridge.
func startShellNamed(t *testing.T, name string, b *binary) *shell {
	t.Helper()
	dir := t.TempDir()
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"bin": filepath.Dir(b.path), "examples": filepath.Join(repo, "examples")} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(name, map[string]string{"bash": "--norc", "zsh": "-f"}[name])
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "AIBRIDGE_URL=mqtt://"+b.addresses.MQTT, "AIBRIDGE_DATA="+b.data, "TMPDIR="+dir,
		"PATH="+filepath.Dir(b.path)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	inGroup(cmd) // so that its background jobs end with it
	cmd.WaitDelay = 5 * time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		killGroup(cmd)
		_ = cmd.Wait()
	})
	_, port, err := net.SplitHostPort(b.addresses.MQTT)
	if err != nil {
		t.Fatal(err)
	}
	_, securePort, err := net.SplitHostPort(b.addresses.MQTTS)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"mosquitto_pub", "mosquitto_sub", "mosquitto_rr"} {
		fmt.Fprintf(in, mosquittoFunction, tool, port, securePort)
	}
	fmt.Fprintf(in, "curl() { command curl \"${@//127.0.0.1:9010/%s}\"; }\n", b.addresses.HTTP)
	return &shell{in: in, out: bufio.NewReader(out), dir: dir}
}

// printed is the output of the steps before one, to which their programs in the
// background go on adding.
func (s *shell) printed(before int) string {
	var all strings.Builder
	for i := range before {
		out, _ := os.ReadFile(s.outputOf(i))
		fmt.Fprintf(&all, "\n%d: %s", i, out)
	}
	return all.String()
}

func (s *shell) outputOf(i int) string { return filepath.Join(s.dir, fmt.Sprintf("step-%d.out", i)) }

// mosquittoFunction leads a mosquitto client to other ports. Only an argument that is
// nothing but the port is one: the digits may be in an id that the bridge makes up.
const mosquittoFunction = `%[1]s() {
  local argument arguments=(-p %[2]s)
  for argument; do
    case $argument in 8883) argument=%[3]s ;; esac
    arguments+=("$argument")
  done
  command %[1]s "${arguments[@]}"
}
`

// run runs a few lines and returns what they printed.
func (s *shell) run(t *testing.T, i int, script string) string {
	t.Helper()
	file := s.outputOf(i)
	if _, err := fmt.Fprintf(s.in, "{\n%s} >%s 2>&1 </dev/null\necho finished\n", script, file); err != nil {
		t.Fatal(err)
	}
	finished := make(chan error, 1)
	go func() {
		_, err := s.out.ReadString('\n')
		finished <- err
	}()
	select {
	case err := <-finished:
		if err != nil {
			t.Fatalf("the shell ended: %v", err)
		}
	case <-time.After(2 * bridgetest.Patience):
		t.Fatalf("step %d hangs:\n%s", i, script)
	}
	out, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
