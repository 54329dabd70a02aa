package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/gobuild"
)

// starters run a new device in its folder, in every language. What is not on this
// machine skips the test.
var starters = map[string]func(t *testing.T, b *binary, folder string) *exec.Cmd{
	"python": func(t *testing.T, _ *binary, _ string) *exec.Cmd {
		const python = "/usr/bin/python3" // Debian's, which has Debian's paho
		if out, err := exec.Command(python, "-c", "import paho.mqtt.client").CombinedOutput(); err != nil {
			t.Skipf("python3-paho-mqtt is not installed: %v %s", err, out)
		}
		return exec.Command(python, "device.py")
	},
	"js": func(t *testing.T, _ *binary, folder string) *exec.Cmd {
		node, err := exec.LookPath("node")
		if err != nil {
			t.Skip("node is not installed")
		}
		packages, err := filepath.Abs("../../sdk/js/node_modules")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(packages, "mqtt")); err != nil {
			t.Skip("MQTT.js is not installed: run npm ci in sdk/js")
		}
		if err := os.Symlink(packages, filepath.Join(folder, "node_modules")); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
		return exec.Command(node, "device.js")
	},
	"go": func(t *testing.T, _ *binary, folder string) *exec.Cmd {
		useThisModule(t, folder)
		build := gobuild.Command(t.Context(), "build", "-mod=mod", "-o", "device", ".")
		build.Dir, build.Env = folder, append(build.Env, "GOWORK=off", "GOPROXY=off")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
		return exec.Command(filepath.Join(folder, "device"))
	},
	"c": func(t *testing.T, _ *binary, folder string) *exec.Cmd {
		check := exec.CommandContext(t.Context(), "gcc", "-fsyntax-only", "-x", "c", "-")
		check.Stdin = strings.NewReader("#include <mosquitto.h>\n")
		if check.Run() != nil {
			t.Skip("gcc or mosquitto.h is missing: apt install gcc make libmosquitto-dev")
		}
		if out, err := exec.CommandContext(t.Context(), "make", "-C", folder, "CC=gcc", "CFLAGS=-Wall -Wextra -Werror").CombinedOutput(); err != nil {
			t.Fatalf("make: %v\n%s", err, out)
		}
		return exec.Command(filepath.Join(folder, "device"))
	},
	"shell": func(_ *testing.T, b *binary, _ string) *exec.Cmd {
		return exec.Command(b.path, "agent", "end", "--id", "my-shell", "--skills", "skills", "--data", b.data)
	},
}

// useThisModule has a module in a folder use this one, with the libraries of this
// one, which are on this machine.
func useThisModule(t *testing.T, folder string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, libraries, _ := strings.Cut(string(ours), "\nrequire")
	theirs, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	module := string(theirs) + "\nrequire github.com/aibridge/aibridge v0.0.0\nreplace github.com/aibridge/aibridge => " + root + "\nrequire" + libraries
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"go.mod": module, "go.sum": string(sums)} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A new device runs as it was written, in every language.
func TestANewDeviceRuns(t *testing.T) {
	bridge := startBinary(t, t.TempDir(), "--dev")
	for _, lang := range languageNames() {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			start, ok := starters[lang]
			if !ok {
				t.Fatalf("say in starters how a device in %s is run", lang)
			}
			id, folder := "my-"+lang, filepath.Join(t.TempDir(), "device")
			if out, stderr, code := run(t, bridge, "new", "device", id, "--lang", lang, "--dir", folder); code != 0 || !strings.Contains(out, "run it:") {
				t.Fatalf("new device: %d %s %s", code, out, stderr)
			}
			device := start(t, bridge, folder)
			device.Dir = folder
			device.Env = append(os.Environ(), "AIBRIDGE_URL=mqtt://"+bridge.addresses.MQTT, "TMPDIR="+t.TempDir())
			said := new(lockedBuffer)
			device.Stdout, device.Stderr = said, said
			if err := device.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = device.Process.Signal(os.Interrupt)
				_ = device.Wait()
				if t.Failed() {
					t.Logf("the device: %s", said)
				}
			})
			var out string
			eventually.Holds(t, "the level is set", func() bool {
				out, _, _ = run(t, bridge, "skill", "invoke", id, "set_level", "params.level=40", "--json")
				return strings.Contains(out, `"level":40`) || strings.Contains(out, `"level": 40`)
			}, &out)
			if out, stderr, code := run(t, bridge, "skill", "invoke", id, "get_level"); code != 0 || !strings.Contains(out, "40") {
				t.Errorf("get_level: %d %s %s", code, out, stderr)
			}
			if _, stderr, code := run(t, bridge, "skill", "invoke", id, "set_level", "params.level=101"); code != 10 || !strings.Contains(stderr, "params.level") {
				t.Errorf("101: %d %s", code, stderr)
			}
		})
	}
}
