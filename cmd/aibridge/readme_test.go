package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/wire/scripted"
)

// TestTheReadmeWorksAsWritten runs the README's steps in bash and in zsh, with a
// bridge that is started as it says and a model that does as it is told.
func TestTheReadmeWorksAsWritten(t *testing.T) {
	for _, name := range []string{"bash", "zsh"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, tool := range []string{name, "curl", "awk"} {
				if _, err := exec.LookPath(tool); err != nil {
					t.Skipf("%s is not installed", tool)
				}
			}
			followTheReadme(t, name)
		})
	}
}

func followTheReadme(t *testing.T, shellName string) {
	model := scripted.ForBridge(t,
		callsTool("lamp_set_level", `{"level":75}`), callsTool("lamp_get_level", `{}`), saysText("It is at 75."),
		callsTool("oven_heat", `{"celsius":220}`), saysText("I was not allowed to."))
	page := readme(t)
	flags, ok := strings.CutPrefix(strings.TrimSpace(blocks(page, "console")[0]), "bin/aibridge serve ")
	if !ok {
		t.Fatal("the README starts no bridge")
	}
	flags = strings.ReplaceAll(flags, "http://127.0.0.1:11434", model.URL)
	steps := promised(sectionOf(t, page, "Eight steps"))
	if len(steps) != 12 {
		t.Fatalf("found %d blocks of commands", len(steps))
	}
	shell := startShellNamed(t, shellName, startBinary(t, t.TempDir(), strings.Fields(flags)...))
	for i, step := range steps {
		shell.take(t, i, step)
	}
}

// TestThreeBridgesOfTheReadmeAreOneBroker runs the README's cluster, at ports that
// are free, and on Linux at a loopback address of its own: a bridge opens its ports long
// after they were found free, and other tests take some meanwhile.
func TestThreeBridgesOfTheReadmeAreOneBroker(t *testing.T) {
	for _, tool := range []string{"bash", "mosquitto_pub", "mosquitto_sub"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	section := sectionOf(t, readme(t), "Three bridges on this machine")
	host := "127.0.0.1"
	if runtime.GOOS == "linux" {
		host = fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
	}
	free, taken := make(map[string]string), make(map[string]bool)
	for _, ports := range []string{"188", "901", "622"} {
		for free[ports] == "" || taken[free[ports]] {
			free[ports] = freeTriple(t, host)
		}
		taken[free[ports]] = true
	}
	section = regexp.MustCompile(`\b(188|901|622)(\$n|[123]\b)`).ReplaceAllStringFunc(section, func(port string) string {
		return free[port[:3]] + port[3:]
	})
	section = strings.ReplaceAll(section, "127.0.0.1", host)
	section = regexp.MustCompile(`mosquitto_(pub|sub) `).ReplaceAllString(section, "mosquitto_$1 -h "+host+" ")
	steps := promised(section)
	if len(steps) != 4 {
		t.Fatalf("found %d blocks of commands", len(steps))
	}
	shell := startShellNamed(t, "bash", startBinary(t, t.TempDir(), "--dev"))
	for i, step := range steps {
		shell.take(t, i, step)
	}
}

// freeTriple is the beginning of three free ports of a host that end with 1, 2 and 3.
func freeTriple(t *testing.T, host string) string {
	t.Helper()
	for {
		ports := strconv.Itoa(1000 + rand.IntN(2000))
		free := true
		for _, last := range []string{"1", "2", "3"} {
			l, err := net.Listen("tcp", net.JoinHostPort(host, ports+last))
			free = free && err == nil
			if err == nil {
				defer l.Close()
			}
		}
		if free {
			return ports
		}
	}
}

// promised reads steps out of a page whose commands can be pasted into any
// shell: sh blocks, each with the text block that follows it, if one does.
func promised(page string) []step {
	var steps []step
	for _, part := range strings.Split(page, "```sh\n")[1:] {
		script, after, _ := strings.Cut(part, "```\n")
		want := ""
		if shown := strings.TrimSpace(after); strings.HasPrefix(shown, "```text\n") {
			want, _, _ = strings.Cut(strings.TrimPrefix(shown, "```text\n"), "```")
		}
		steps = append(steps, step{script, want})
	}
	return steps
}

func readme(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// TestTheReadmeIsShort keeps the README a first page: what else there is has a
// page of its own.
func TestTheReadmeIsShort(t *testing.T) {
	page := readme(t)
	if n := strings.Count(page, "\n"); n > 190 {
		t.Errorf("the README has %d lines, more than 190", n)
	}
	for _, block := range blocks(page, "sh") {
		for line := range strings.Lines(block) {
			if strings.Contains(line, "#") {
				t.Errorf("a shell that takes no comments stumbles over %q", line)
			}
		}
	}
	if numbered := strings.Count(page, "\n**"); numbered != 8 {
		t.Errorf("the README has %d steps", numbered)
	}
}
