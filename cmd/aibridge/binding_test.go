package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bridgetest"
)

// tryBinding runs aibridge binding test with the file of the page.
func tryBinding(t *testing.T, args ...string) (said string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lamp.yaml")
	if err := os.WriteFile(file, []byte(blockOf(t, readPage(t, "bindings.md"), "yaml")), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := root()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"binding", "test", file}, args...))
	err = cmd.Execute()
	return out.String(), err
}

func TestABindingIsTriedOutWithoutABridge(t *testing.T) {
	for _, test := range []struct {
		args, said, fails string
	}{
		{"", "is right: 1 device read from 2 topics, space default\n", ""},
		{"desk-lamp set on=false", `publish  lamps/desk/set  {"state":"OFF"}  (QoS 1)`, ""},
		{"--message lamps/desk/online=0", "presence = offline\n", ""},
		{"--message lamps/desk/online=x", `presence = neither "1" nor "0"`, ""},
		{`--message lamps/desk/state={"state":"ON"}`, "state desk-lamp.brightness: the message does not say it\n", ""},
		{`--message lamps/desk/state={"state":"?"}`, `state desk-lamp.on: cannot be read: "?" is not in the map`, ""},
		{"desk-lamp set on=maybe", "", "the params: 1001: on: must be boolean"},
		{"desk-lamp set brightness=1", "", "the params: 1001: on: "},
		{"desk-lamp", "", "a skill needs a capability behind it"},
		{"desk-lamp jump", "", "the file has no skill desk-lamp with a capability jump"},
		{"--message lamps", "", `--message "lamps" is not TOPIC=PAYLOAD`},
		{"--message other=1", "", "no device is read from other"},
	} {
		said, err := tryBinding(t, strings.Fields(test.args)...)
		if !strings.Contains(said, test.said) || (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%s: %v\n%s", test.args, err, said)
		}
	}
}

func TestABindingIsTriedOutOnABridge(t *testing.T) {
	n := bridgetest.Start(t)
	lamp := n.Connect(t, "lamp")
	lamp.Listen(t, "lamps/desk/set")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if asked := lamp.Next(t); string(asked.Payload) == `{"state":"ON"}` {
			lamp.Send(t, "lamps/desk/state", string(asked.Payload))
		}
	}()
	said, err := tryBinding(t, "desk-lamp", "set", "on=true", "--live", "--until", "1", "--url", n.MQTTURL(), "--for", time.Hour.String())
	<-ended
	if err != nil || !strings.Contains(said, "state desk-lamp.on = true\n") {
		t.Errorf("%v\n%s", err, said)
	}
}
