package main

import (
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"github.com/aibridge/aibridge/internal/eventually"
)

// TestDelayedMessagesSurviveKill kills the bridge once it has acknowledged messages
// that are to come later: they come.
func TestDelayedMessagesSurviveKill(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	bridge := startBinary(t, data, "--dev")
	heard := make(chan string, 16)
	listen := func() mqtt.Client {
		return connect(t, bridge, "listens", func(o *mqtt.ClientOptions) {
			o.SetCleanSession(false).SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) { heard <- m.Topic() + " " + string(m.Payload()) })
		})
	}
	do := func(token mqtt.Token) {
		t.Helper()
		if !token.WaitTimeout(time.Minute) || token.Error() != nil {
			t.Fatal(token.Error())
		}
	}
	c := listen()
	do(c.Subscribe("lamps/+", 1, nil))
	c.Disconnect(0)
	c = connect(t, bridge, "says")
	do(c.Publish("$delayed/3/lamps/1", 1, false, "off"))
	do(c.Publish("$delayed/2/lamps/1", 2, false, "on"))
	bridge.kill()

	bridge = startBinary(t, data, "--dev")
	listen()
	for missing := map[string]bool{"lamps/1 on": true, "lamps/1 off": true}; len(missing) > 0; {
		select {
		case got := <-heard: // in either order: the second was sent some time after the first
			delete(missing, got)
		case <-time.After(eventually.Patience):
			t.Fatalf("missing: %v", missing)
		}
	}
}
