package sdk_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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

// madeInC is what make says to build a target of the C core in a folder.
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
