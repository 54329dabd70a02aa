package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestACertificateIsRenewedByItsHolderAlone(t *testing.T) {
	bridge := startBinary(t, t.TempDir())
	dir := t.TempDir()
	old, renewed := filepath.Join(dir, "lighting"), filepath.Join(dir, "lighting-2")
	do := func(want int, args ...string) string {
		t.Helper()
		out, stderr, code := run(t, bridge, args...)
		if code != want {
			t.Fatalf("%s: exit code %d, want %d: %s%s", strings.Join(args, " "), code, want, out, stderr)
		}
		return strings.TrimSpace(out)
	}
	first := do(0, "cert", "issue", "--authority", "operator", "--skill", "lighting", "--role", "agent_route", "--scene", "SMART_HOME", "--out", old)
	second := do(0, "cert", "renew", old, "--out", renewed)
	if first == second || len(second) != 16 {
		t.Errorf("serials %q and %q", first, second)
	}
	shown := do(0, "cert", "show", filepath.Join(renewed, "cert.pem"))
	if !strings.Contains(shown, "agent_route") || !strings.Contains(shown, "lighting") {
		t.Errorf("renewed as %s", shown)
	}
	do(0, "call", "scene.query", "--cert", filepath.Join(renewed, "cert.pem"), "--key", filepath.Join(renewed, "key.pem"))
	do(2, "cert", "renew", old, "--out", filepath.Join(dir, "x"), "--url", "mqtt://"+bridge.addresses.MQTT)
}
