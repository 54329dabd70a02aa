package sdk_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/sdk/conformance"
)

// needC skips a test where the C core cannot be built.
func needC(t *testing.T) {
	t.Helper()
	for _, program := range []string{"gcc", "make"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is missing: apt install gcc libc6-dev make", program)
		}
	}
}

// needMosquitto skips a test where there is no libmosquitto to build with.
func needMosquitto(t *testing.T) {
	t.Helper()
	needC(t)
	check := exec.CommandContext(t.Context(), "gcc", "-fsyntax-only", "-x", "c", "-")
	check.Stdin = strings.NewReader("#include <mosquitto.h>\n")
	if check.Run() != nil {
		t.Skip("mosquitto.h is missing: apt install libmosquitto-dev")
	}
}

// madeInC are the commands of make that build a target of the C core in a folder.
func madeInC(t *testing.T, folder, target string, variables ...string) string {
	t.Helper()
	args := append([]string{"--no-print-directory", "-C", "c", target, "CC=gcc", "OUT=" + folder}, variables...)
	return output(t, exec.CommandContext(t.Context(), "make", args...))
}

// The device is built with sanitizers: a step beside the memory ends it.
func TestTheCCoreConforms(t *testing.T) {
	t.Parallel()
	needMosquitto(t)
	folder := t.TempDir()
	madeInC(t, folder, folder+"/device", "CFLAGS=-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all")
	conforms(t, conformance.Options{Command: []string{filepath.Join(folder, "device")}},
		"restart/once", "restart/interrupted") // its memory ends with the process
}

func TestTheCCoreAlone(t *testing.T) {
	t.Parallel()
	needC(t)
	said := madeInC(t, t.TempDir(), "test", "ROUNDS=2000")
	if !strings.Contains(said, "\nOK\n") || !strings.Contains(said, " inputs, ") {
		t.Errorf("no tests ran:\n%s", said)
	}
}

func TestTheBuildOfTheCCoreSaysItsSize(t *testing.T) {
	t.Parallel()
	needC(t)
	if said := madeInC(t, t.TempDir(), "size"); !strings.Contains(said, "text") || !strings.Contains(said, "core.o") {
		t.Errorf("it says %s", said)
	}
}

// The LED strip in C works with a whole bridge.
func TestTheLEDStripInC(t *testing.T) {
	t.Parallel()
	needMosquitto(t)
	folder := t.TempDir()
	madeInC(t, folder, folder+"/led_strip")
	node := bridgetest.Start(t)
	c := node.Dial(t)
	strip := exec.Command(filepath.Join(folder, "led_strip"))
	strip.Env = os.Environ()
	start(t, strip, "", node.MQTTURL())
	var got string
	eventually.Holds(t, "the strip answers", func() bool {
		got = invoke(t, c, "led-strip", "set_color", `{"red":255,"green":120,"blue":0}`)
		return got == `{}`
	}, &got)
}

// TestWorkInCGoesOnWhileTheConnectionIsAway cuts a device off in the midst of a
// call of many steps. Waiting for the next connection must not keep them back.
func TestWorkInCGoesOnWhileTheConnectionIsAway(t *testing.T) {
	t.Parallel()
	needMosquitto(t)
	folder := t.TempDir()
	madeInC(t, folder, folder+"/steps")
	node := bridgetest.Start(t)
	c := node.Dial(t)
	line := cable(t, node.MQTT)
	device := exec.Command(filepath.Join(folder, "steps"))
	device.Env = append(os.Environ(), "AIBRIDGE_URL=mqtt://"+line.address)
	out, err := device.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := device.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = device.Process.Kill()
		_ = device.Wait()
	})
	said := make(chan string, 2)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			said <- lines.Text()
		}
		close(said)
	}()
	eventually.Holds(t, "the device serves its skill", func() bool { // an agent is online a moment before its skills are known
		found, err := client.Call[json.RawMessage](t.Context(), c, "agent.get", map[string]any{"agent_id": "walker"})
		return err == nil && strings.Contains(string(found), `"status":"online"`) && strings.Contains(string(found), `"skills":["walker"]`)
	})
	called := make(chan struct{})
	go func() { // it is not answered before the test ends
		defer close(called)
		_, _ = client.Call[json.RawMessage](t.Context(), c, "skill.invoke", map[string]any{"skill_id": "walker", "capability_id": "walk"})
	}()
	t.Cleanup(func() { <-called }) // the context of the test has ended
	for _, want := range []string{"begun", "done"} {
		select {
		case got := <-said:
			if got != want {
				t.Fatalf("the device says %q, not %q", got, want)
			}
		case <-time.After(bridgetest.Patience):
			t.Fatalf("the device is not %s", want)
		}
		line.cut()
	}
}

// A line is a way to an address that can be cut for good.
type line struct {
	address string
	cut     func()
}

func cable(t *testing.T, to string) line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var copying sync.WaitGroup
	copying.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			context.AfterFunc(ctx, func() { _, _ = near.Close(), far.Close() })
			copying.Go(func() { _, _ = io.Copy(near, far) })
			copying.Go(func() { _, _ = io.Copy(far, near) })
		}
	})
	cut := func() {
		_ = l.Close()
		cancel()
	}
	t.Cleanup(func() {
		cut()
		copying.Wait()
	})
	return line{l.Addr().String(), cut}
}
