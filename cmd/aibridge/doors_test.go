package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/app"
)

// TestAnyDoorLeadsToTheOthers gives every command the address of every door, on
// a machine that knows nothing else of the bridge.
func TestAnyDoorLeadsToTheOthers(t *testing.T) {
	bridge := startBinary(t, t.TempDir())
	elsewhere := t.TempDir()
	credentials := []string{"--api-key-file", filepath.Join(bridge.data, app.AdminKeyFile), "--ca", filepath.Join(bridge.data, app.CAFile)}
	note := filepath.Join(elsewhere, "note.txt")
	if err := os.WriteFile(note, []byte("note"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := bridge.addresses
	for _, url := range []string{
		"mqtt://" + a.MQTT, "mqtts://" + a.MQTTS, "ws://" + a.WS, "wss://" + a.WS, "http://" + a.HTTP, "https://" + a.HTTP + "/",
	} {
		for _, try := range []struct{ command, want string }{
			{"agent list", "agents"},
			{"vfs put " + note + " papers/note", "note"},
			{"vfs ls papers", "note"},
			{"health", "ready"},
			{"backup " + note + ".backup", "saved"},
		} {
			args := append(append(strings.Fields(try.command), "--url", url), credentials...)
			if out, stderr, code := runIn(t, bridge, elsewhere, args...); code != 0 || !strings.Contains(out+stderr, try.want) {
				t.Errorf("aibridge %s --url %s: %d %s%s", try.command, url, code, out, stderr)
			}
		}
	}
}

// TestADeviceClaimsItsCertificateByTheDataFolder names no address.
func TestADeviceClaimsItsCertificateByTheDataFolder(t *testing.T) {
	bridge := startBinary(t, t.TempDir())
	made := bridge.aibridge(t, "cert", "token", "--authority", "operator", "--skill", "lighting", "-o", "yaml")
	_, token, _ := strings.Cut(made, "abt_")
	token = "abt_" + strings.Fields(token)[0]
	out := filepath.Join(t.TempDir(), "lighting")
	if stdout, stderr, code := run(t, bridge, "cert", "claim", token, "--out", out); code != 0 {
		t.Fatalf("%d %s%s\n%s", code, stdout, stderr, made)
	}
	if _, err := os.Stat(filepath.Join(out, "cert.pem")); err != nil {
		t.Error(err)
	}
}

// TestADeviceClaimsItsCertificateByAnyDoor gives the address of MQTT, where a
// device with nothing to show is not let in.
func TestADeviceClaimsItsCertificateByAnyDoor(t *testing.T) {
	bridge := startBinary(t, t.TempDir())
	made := bridge.aibridge(t, "cert", "token", "--authority", "operator", "--skill", "lighting", "-o", "yaml")
	_, token, _ := strings.Cut(made, "abt_")
	token = "abt_" + strings.Fields(token)[0]
	out, url := filepath.Join(t.TempDir(), "lighting"), "mqtt://"+bridge.addresses.MQTT
	if _, stderr, code := runIn(t, bridge, t.TempDir(), "cert", "claim", token, "--out", out, "--url", url); code == 0 || !strings.Contains(stderr, "only the HTTP door") {
		t.Errorf("a device that is not let in: %d %s", code, stderr)
	}
	if stdout, stderr, code := run(t, bridge, "cert", "claim", token, "--out", out, "--url", url); code != 0 {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
}

func TestWhereOtherDoorsAre(t *testing.T) {
	all := &commands.Doors{MQTT: 1, MQTTS: 2, HTTP: 3, WS: 4}
	for _, test := range []struct {
		address string
		doors   *commands.Doors
		cert    bool
		mqtt    string
	}{
		{"http://h:3", all, false, "mqtt://h:1"},
		{"http://[::1]:3/", all, true, "mqtts://[::1]:2"},
		{"https://h:3", all, false, "mqtts://h:2"},
		{"https://h", &commands.Doors{MQTT: 1, HTTP: 3, WS: 4}, false, "wss://h:4/mqtt"},
		{"http://h:3", &commands.Doors{HTTP: 3, WS: 4}, false, "ws://h:4/mqtt"},
		{"http://h:3", nil, false, ""},
	} {
		if got, err := mqttBeside(test.address, test.doors, test.cert); got != test.mqtt || (err != nil) != (test.mqtt == "") {
			t.Errorf("MQTT beside %s of %+v: %q, %v", test.address, test.doors, got, err)
		}
	}
	for address, want := range map[string]string{"mqtt://h:1": "http://h:3", "mqtts://h:2": "https://h:3", "ws://h:4/mqtt": "http://h:3", "wss://h:4": "https://h:3"} {
		if got, err := httpBeside(address, all, false); got != want {
			t.Errorf("HTTP beside %s: %q, %v", address, got, err)
		}
	}
	if got, err := httpBeside("mqtt://h:1", &commands.Doors{HTTP: 3, TLSOnly: true}, false); got != "https://h:3" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := httpBeside("mqtt://h:1", nil, false); err == nil {
		t.Error("a bridge that tells of no doors is found")
	}
}
