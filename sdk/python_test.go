// Package sdk_test runs the tests of the SDKs in other languages.
package sdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/sdk/conformance"
)

// python is a command with Debian's Python, which has Debian's paho, and with the
// SDK as it is in this folder. Without paho the test is skipped.
func python(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	const program = "/usr/bin/python3"
	if out, err := exec.CommandContext(t.Context(), program, "-c", "import paho.mqtt.client").CombinedOutput(); err != nil {
		t.Skipf("python3-paho-mqtt is not installed: %v %s", err, out)
	}
	source, err := filepath.Abs("python/src")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+source, "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

// output runs a command that must succeed.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}

func TestThePythonSDKConforms(t *testing.T) {
	t.Parallel()
	device := python(t, "python/tests/device.py")
	conforms(t, conformance.Options{Command: device.Args, Env: device.Env})
}

// conforms holds a device to all clauses: none may be skipped but those it has leave to.
func conforms(t *testing.T, o conformance.Options, maySkip ...string) {
	t.Helper()
	o.CheckParams, o.Patience = bridgetest.CheckParams, eventually.Patience
	o.Progress = func(r conformance.Result) {
		t.Run(r.Name, func(t *testing.T) {
			mayBe := r.Outcome == conformance.Skipped && slices.Contains(maySkip, r.Name)
			if r.Outcome != conformance.Passed && !mayBe {
				t.Error(r)
			}
		})
	}
	if _, err := conformance.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func TestPythonUnits(t *testing.T) {
	t.Parallel()
	said := output(t, python(t, "-W", "error::ResourceWarning", "-m", "unittest", "discover", "-s", "python/tests"))
	if !strings.Contains(said, "\nOK") {
		t.Errorf("no tests ran:\n%s", said)
	}
}

func TestThePythonSDKIsTyped(t *testing.T) {
	t.Parallel()
	mypy, err := exec.LookPath("mypy")
	if err != nil {
		t.Skip("mypy is not installed")
	}
	cmd := exec.CommandContext(t.Context(), mypy, "--cache-dir", t.TempDir())
	cmd.Dir = "python"
	output(t, cmd)
}

// The codes and their classes are in two places; they are the same.
func TestThePythonErrorsAreThoseOfTheProtocol(t *testing.T) {
	t.Parallel()
	said := output(t, python(t, "-c", `
import json
from aibridge import errors
print(json.dumps({code: kind.retry.value for code, kind in errors.BY_CODE.items()}))`))
	var classes map[protocol.Code]string
	if err := json.Unmarshal([]byte(said), &classes); err != nil {
		t.Fatal(err)
	}
	for _, code := range protocol.Codes() {
		if classes[code] != code.Retry().String() {
			t.Errorf("%s is %q in Python, %q in the protocol", code, classes[code], code.Retry())
		}
		delete(classes, code)
	}
	if len(classes) > 0 {
		t.Errorf("Python has codes that the protocol has not: %v", classes)
	}
}

func TestThePythonPackageIsAWheelOfItsOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	build := python(t, "-c", "import sys, build_wheel; print(build_wheel.build_wheel(sys.argv[1])); build_wheel.build_sdist(sys.argv[1])", dir)
	backend, err := filepath.Abs("python/backend")
	if err != nil {
		t.Fatal(err)
	}
	build.Env = append(build.Env, "PYTHONPATH="+backend)
	wheel := filepath.Join(dir, strings.TrimSpace(output(t, build)))
	use := python(t, "-c", "import aibridge; assert '.whl' in aibridge.__file__, aibridge.__file__; print(aibridge.__version__)")
	use.Env = append(use.Env, "PYTHONPATH="+wheel)
	if version := strings.TrimSpace(output(t, use)); !strings.Contains(wheel, "aibridge-"+version+"-py3-none-any.whl") {
		t.Errorf("%s is version %s", wheel, version)
	}
}

func TestThePythonPackageInstallsWithoutANetwork(t *testing.T) {
	t.Parallel()
	python(t, "-c", "")
	dir := filepath.Join(t.TempDir(), "venv")
	if out, err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-m", "venv", "--system-site-packages", dir).CombinedOutput(); err != nil {
		t.Skipf("python3-venv is not installed: %s", out)
	}
	source := filepath.Join(t.TempDir(), "sdk") // pip may write beside the sources
	if err := os.CopyFS(source, os.DirFS("python")); err != nil {
		t.Fatal(err)
	}
	output(t, exec.CommandContext(t.Context(), filepath.Join(dir, "bin", "pip"), "install", "--no-index", "--disable-pip-version-check", source))
	where := output(t, exec.CommandContext(t.Context(), filepath.Join(dir, "bin", "python"), "-c", "import aibridge; print(aibridge.__file__)"))
	if !strings.HasPrefix(where, dir) {
		t.Errorf("installed at %s", where)
	}
}

// hardware stands in for the libraries of the devices on the page.
var hardware = map[string]string{
	"board.py":          "D18 = 18\ndef I2C(): return None\n",
	"neopixel.py":       "class NeoPixel:\n    def __init__(self, pin, n): pass\n    def fill(self, color): print('strip', *color, flush=True)\n",
	"adafruit_scd4x.py": "class SCD4X:\n    CO2 = 612\n    def __init__(self, bus): pass\n    def start_periodic_measurement(self): pass\n",
}

// blocks are the programs of a page in a language.
func blocks(t *testing.T, page, language string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, block := range strings.Split(string(text), "```"+language+"\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		found = append(found, block)
	}
	return found
}

// The devices on the page of the SDKs are as short as it says, and work.
func TestTheDevicesOnThePageWork(t *testing.T) {
	t.Parallel()
	programs := blocks(t, "../docs/sdk.md", "python")
	node := bridgetest.Start(t)
	c := node.Dial(t)
	libraries := t.TempDir()
	for name, text := range hardware {
		bridgetest.Write(t, filepath.Join(libraries, name), text)
	}
	for i, device := range []struct{ skill, capability, params, want string }{
		{"led-strip", "set_color", `{"red":255,"green":120,"blue":0}`, `{}`},
		{"co2-bedroom", "read", `{}`, `612`},
	} {
		t.Run(device.skill, func(t *testing.T) {
			if n := lines(programs[i]); n > 12 {
				t.Errorf("%d lines", n)
			}
			program := filepath.Join(t.TempDir(), "device.py")
			bridgetest.Write(t, program, programs[i])
			start(t, python(t, program), libraries, node.MQTTURL())
			var got string
			eventually.Holds(t, device.skill+" answers", func() bool {
				got = invoke(t, c, device.skill, device.capability, device.params)
				return got == device.want
			}, &got)
		})
	}
}

// The other programs on the page run as well: long work with progress, and a caller.
func TestTheProgramsOnThePageRun(t *testing.T) {
	t.Parallel()
	programs := blocks(t, "../docs/sdk.md", "python")
	if len(programs) != 4 {
		t.Fatalf("the page has %d programs: say here what becomes of the new ones", len(programs))
	}
	node := bridgetest.Start(t, func(c *app.Config) { c.Root = "house" }) // which the SDK learns
	c := node.Dial(t)
	program := filepath.Join(t.TempDir(), "oven.py")
	bridgetest.Write(t, program, `
from typing import Annotated
from aibridge import Agent, Invocation, Range
agent = Agent("co2-bedroom")
Invocation.sleep = lambda call, seconds: call.check()
`+programs[2]+`
@agent.capability(effect="read")
def read() -> int:
    return 612

agent.run()
`)
	start(t, python(t, program), "", node.MQTTURL())
	var got string
	eventually.Holds(t, "the oven answers", func() bool {
		got = invoke(t, c, "co2-bedroom", "bake", `{"minutes":3}`)
		return got == `"done"`
	}, &got)
	caller := strings.ReplaceAll(programs[3], "mqtt://127.0.0.1:1883", node.MQTTURL())
	if said := output(t, python(t, "-c", caller)); !strings.HasPrefix(said, "612\n3001 ") {
		t.Errorf("the caller prints %q", said)
	}
}

// lines counts those that say something.
func lines(program string) int {
	n := 0
	for line := range strings.Lines(program) {
		if strings.TrimSpace(line) != "" {
			n++
		}
	}
	return n
}

// start runs a Python program until the test ends, when it must leave in peace.
func start(t *testing.T, cmd *exec.Cmd, libraries, url string) {
	t.Helper()
	for i, variable := range cmd.Env {
		if strings.HasPrefix(variable, "PYTHONPATH=") {
			cmd.Env[i] = variable + ":" + libraries
		}
	}
	cmd.Env = append(cmd.Env, "AIBRIDGE_URL="+url)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("the program ended with %v:\n%s", err, said.String())
		}
	})
}

// invoke is the result of a capability as JSON, or what went wrong.
func invoke(t *testing.T, c *client.Client, skill, capability, params string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
	defer cancel()
	r, err := client.Call[struct {
		Data json.RawMessage `json:"data"`
	}](ctx, c, "skill.invoke", json.RawMessage(fmt.Sprintf(`{"skill_id":%q,"capability_id":%q,"params":%s}`, skill, capability, params)))
	if err != nil {
		return err.Error()
	}
	return string(r.Data)
}

// The client side, and certificates, against a whole bridge.
func TestPythonAgainstABridge(t *testing.T) {
	t.Parallel()
	node := bridgetest.Start(t)
	cmd := python(t, "-W", "error::ResourceWarning", "python/tests/against_bridge.py")
	if out, err := exec.CommandContext(t.Context(), cmd.Path, "-c", "import cryptography").CombinedOutput(); err != nil {
		t.Skipf("python3-cryptography is not installed: %s", out)
	}
	cmd.Env = append(cmd.Env, "AIBRIDGE_URL="+node.MQTTURL(),
		"BRIDGE_MQTTS=mqtts://"+node.MQTTS, "BRIDGE_WS=ws://"+node.WS+"/mqtt", "BRIDGE_HTTP="+node.HTTPURL(""))
	if said := output(t, cmd); !strings.Contains(said, "\nOK") {
		t.Errorf("no tests ran:\n%s", said)
	}
}
