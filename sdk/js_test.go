package sdk_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/sdk/conformance"
	"github.com/aibridge/aibridge/sdk/js"
)

// node is a command with Node and the SDK as it is built in this folder. Where its npm
// packages are not installed the test is skipped.
func node(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	program, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	if _, err := os.Stat("js/node_modules/mqtt"); err != nil {
		t.Skip("the npm packages of sdk/js are not there (cd sdk/js && npm ci)")
	}
	cmd := exec.Command(program, args...)
	cmd.Env = os.Environ()
	return cmd
}

func TestTheJavaScriptSDKConforms(t *testing.T) {
	t.Parallel()
	device := node(t, "js/tests/device.js")
	conforms(t, conformance.Options{Command: device.Args, Env: device.Env})
}

func TestJavaScriptUnits(t *testing.T) {
	t.Parallel()
	passed(t, node(t, "--test", "--test-reporter=tap", "js/tests/parts.test.js"))
}

// The client side, and certificates, against a whole bridge.
func TestJavaScriptAgainstABridge(t *testing.T) {
	t.Parallel()
	cmd := node(t, "--test", "--test-reporter=tap", "js/tests/bridge.test.js")
	bridge := bridgetest.Start(t)
	cmd.Env = append(cmd.Env, "AIBRIDGE_URL="+bridge.MQTTURL(),
		"BRIDGE_MQTTS=mqtts://"+bridge.MQTTS, "BRIDGE_WS=ws://"+bridge.WS+"/mqtt", "BRIDGE_HTTP="+bridge.HTTPURL(""))
	passed(t, cmd)
}

// passed runs tests of Node, of which there must be some.
func passed(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	said := output(t, cmd)
	if strings.Contains(said, "# pass 0\n") || !strings.Contains(said, "# fail 0\n") {
		t.Errorf("no tests ran:\n%s", said)
	}
}

// What is built is what the sources give, which the compiler takes as strictly as it can.
func TestTheJavaScriptSDKIsBuilt(t *testing.T) {
	t.Parallel()
	node(t)
	if _, err := os.Stat("js/node_modules/typescript"); err != nil {
		t.Skip("the compiler of TypeScript is not installed (cd sdk/js && npm ci)")
	}
	folder := t.TempDir()
	output(t, exec.CommandContext(t.Context(), "js/node_modules/.bin/tsc", "-p", "js", "--outDir", folder))
	want, got := texts(t, os.DirFS(folder)), texts(t, js.Source())
	for name, text := range want {
		if !bytes.Equal(got[name], text) {
			t.Errorf("sdk/js/dist/%s is stale: go generate ./sdk/js", name)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("sdk/js/dist/%s has no source", name)
	}
}

// texts are the files of a folder.
func texts(t *testing.T, folder fs.FS) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	err := fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		found[name], err = fs.ReadFile(folder, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// The codes and their classes are in two places; they are the same.
func TestTheJavaScriptErrorsAreThoseOfTheProtocol(t *testing.T) {
	t.Parallel()
	cmd := node(t, "--input-type=module", "-e", `
import { errorClasses } from "@aibridge/client";
const classes = Object.entries(errorClasses).map(([code, kind]) => [code, new kind("").code === code && new kind("").retry]);
console.log(JSON.stringify(Object.fromEntries(classes)));`)
	cmd.Dir = "js"
	var classes map[protocol.Code]any
	if err := json.Unmarshal([]byte(output(t, cmd)), &classes); err != nil {
		t.Fatal(err)
	}
	for _, code := range protocol.Codes() {
		if classes[code] != code.Retry().String() {
			t.Errorf("%s is %v in JavaScript, %q in the protocol", code, classes[code], code.Retry())
		}
		delete(classes, code)
	}
	if len(classes) > 0 {
		t.Errorf("JavaScript has codes that the protocol has not: %v", classes)
	}
}

// modules stand in for the libraries of the devices on the page.
var modules = map[string]string{
	"rpi-ws281x-native": `export default Object.assign((n) => ({ array: new Uint32Array(n) }), { render() {} });`,
	"scd30-node":        `export const SCD30 = { connect: async () => ({ startContinuousMeasurement() {}, readMeasurement: async () => ({ co2Concentration: 612 }) }) };`,
}

// folderOf is a folder in which programs find the SDK and the libraries.
func folderOf(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	scope := filepath.Join(folder, "node_modules", "@aibridge")
	if err := os.MkdirAll(scope, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range modules {
		library := filepath.Join(folder, "node_modules", name)
		if err := os.Mkdir(library, 0o700); err != nil {
			t.Fatal(err)
		}
		bridgetest.Write(t, filepath.Join(library, "package.json"), `{"type":"module","main":"index.js"}`)
		bridgetest.Write(t, filepath.Join(library, "index.js"), text)
	}
	sdk, err := filepath.Abs("js")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(sdk, filepath.Join(scope, "client")); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	return folder
}

// The devices in JavaScript on the page of the SDKs are as short as it says, and work.
func TestTheJavaScriptDevicesOnThePageWork(t *testing.T) {
	t.Parallel()
	node(t)
	programs := blocks(t, "../docs/sdk.md", "js")
	if len(programs) != 4 {
		t.Fatalf("the page has %d programs: say here what becomes of the new ones", len(programs))
	}
	bridge := bridgetest.Start(t)
	c := bridge.Dial(t)
	folder := folderOf(t)
	for i, device := range []struct{ skill, capability, params, want string }{
		{"led-strip", "set_color", `{"red":255,"green":120,"blue":0}`, `{}`},
		{"co2-bedroom", "read", `{}`, `612`},
		{"oven", "bake", `{"minutes":3}`, `"done"`},
	} {
		if n := lines(programs[i]); n > 12 {
			t.Errorf("%s has %d lines", device.skill, n)
		}
		program := filepath.Join(folder, device.skill+".mjs")
		bridgetest.Write(t, program, strings.ReplaceAll(programs[i], "60_000", "1"))
		start(t, node(t, program), "", bridge.MQTTURL())
		var got string
		eventually.Holds(t, device.skill+" answers", func() bool {
			got = invoke(t, c, device.skill, device.capability, device.params)
			return got == device.want
		}, &got)
	}
	caller := filepath.Join(folder, "caller.mjs")
	bridgetest.Write(t, caller, strings.ReplaceAll(programs[3], "mqtt://127.0.0.1:1883", bridge.MQTTURL()))
	if said := output(t, node(t, caller)); !strings.HasPrefix(said, "612\n3001 ") {
		t.Errorf("the caller prints %q", said)
	}
}
