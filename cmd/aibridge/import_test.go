package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"github.com/aibridge/aibridge/internal/bridgetest"
)

// TestClientsOfMosquittoGoOn runs the page, and then serves what it made: the
// clients come with the passwords that they have, and use the topics that they
// had.
func TestClientsOfMosquittoGoOn(t *testing.T) {
	for _, tool := range []string{"bash", "mosquitto_passwd"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed: apt-get install mosquitto", tool)
		}
	}
	page, err := os.ReadFile("../../docs/coming-from-mosquitto.md")
	if err != nil {
		t.Fatal(err)
	}
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	for i, step := range tour(sectionOf(t, string(page), "Try it")) {
		shell := exec.Command("bash", "-e", "-c", step.script)
		shell.Dir = work
		shell.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
		out, err := shell.CombinedOutput()
		if err != nil || !strings.Contains(string(out), step.want) {
			t.Fatalf("step %d\n%s\nmust print %q, but printed\n%s%v", i, step.script, step.want, out, err)
		}
	}
	again := exec.Command(binary, "import", "mosquitto", "old/mosquitto.conf", "--to", "new")
	again.Dir = work
	if out, err := again.CombinedOutput(); err == nil || !strings.Contains(string(out), "is there already") {
		t.Errorf("files are overwritten: %s", out)
	}
	b := startBinary(t, t.TempDir(), "--config", filepath.Join(work, "new", "aibridge.yaml"))
	if _, err := connectWith(t, b, "lamp", "wrong"); err == nil {
		t.Error("a wrong password is let in")
	}
	lamp, err := connectWith(t, b, "lamp", "correct horse")
	if err != nil {
		t.Fatalf("%v\n%s", err, b.log)
	}
	panel, err := connectWith(t, b, "panel", "battery staple")
	if err != nil {
		t.Fatal(err)
	}
	for filter, want := range map[string]bool{"home/lamp/set": true, "home/panel/set": false, "home/lamp/state": false, "home/+/set": false, "home/#": false} {
		if err := subscribe(lamp, filter, nil); (err == nil) != want {
			t.Errorf("the lamp subscribes to %s: %v", filter, err)
		}
	}
	heard := make(chan string, 4)
	if err := subscribe(panel, "home/#", func(_ mqtt.Client, m mqtt.Message) { heard <- m.Topic() }); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"home/panel/state", "home/lamp/set", "elsewhere", "home/lamp/state"} { // the last alone is the lamp's
		lamp.Publish(topic, 1, false, "on")
	}
	select {
	case topic := <-heard:
		if topic != "home/lamp/state" {
			t.Errorf("the lamp publishes to %s", topic)
		}
	case <-time.After(bridgetest.Patience):
		t.Fatal("the panel hears nothing")
	}
}

// connectWith connects a client of MQTT 3.1.1 that knows nothing of the bridge.
func connectWith(t *testing.T, b *binary, user, word string) (mqtt.Client, error) {
	t.Helper()
	c := mqtt.NewClient(mqtt.NewClientOptions().AddBroker("tcp://" + b.addresses.MQTT).SetClientID(user + "-1").SetUsername(user).SetPassword(word).
		SetProtocolVersion(4).SetAutoReconnect(false).SetConnectRetry(false))
	token := c.Connect()
	if !token.WaitTimeout(bridgetest.Patience) {
		t.Fatal("there is no answer")
	}
	if err := token.Error(); err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Disconnect(0) })
	return c, nil
}

func subscribe(c mqtt.Client, filter string, hear mqtt.MessageHandler) error {
	token := c.Subscribe(filter, 1, hear).(*mqtt.SubscribeToken)
	if !token.WaitTimeout(bridgetest.Patience) {
		return errors.New("there is no answer")
	}
	if err := token.Error(); err != nil {
		return err
	}
	if token.Result()[filter] == 0x80 {
		return errors.New("refused")
	}
	return nil
}
