package app_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// TestBridgesOfTwoVersionsWorkSideBySide has a bridge beside one that speaks the version
// before of what bridges say to each other, whichever of them is there first: messages,
// sessions and calls cross in both directions.
func TestBridgesOfTwoVersionsWorkSideBySide(t *testing.T) {
	t.Parallel()
	for name, versions := range map[string][2]int{"the newer one joins": {-1, 0}, "the older one joins": {0, -1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := startNATS(t)
			of := func(newer int) []app.Option {
				return []app.Option{app.WithWire(newer), app.WithVersion(fmt.Sprint("1.", 5+newer))}
			}
			lines := func(c *app.Config) { c.Cluster.Relay = "127.0.0.1:0" }
			a := bridgetest.StartWith(t, of(versions[0]), beside(t, url, "a", nil), lines)
			b := bridgetest.StartWith(t, of(versions[1]), beside(t, url, "b", a), lines)
			for _, way := range [][2]*bridgetest.Node{{a, b}, {b, a}} {
				crosses(t, way[0], way[1])
			}
		})
	}
}

// crosses has a message, a session and a call go from one bridge to another.
func crosses(t *testing.T, from, to *bridgetest.Node) {
	t.Helper()
	id := from.Config.ID + "-" + to.Config.ID
	kept := func(c *paho.Connect) {
		c.CleanStart = false
		expiry := uint32(3600)
		c.Properties = &paho.ConnectProperties{SessionExpiryInterval: &expiry}
	}
	speaker := from.Connect(t, "speaker-"+id)
	listener := to.Connect(t, "listener-"+id, kept)
	listener.Listen(t, "news/"+id)
	speaker.Send(t, "news/"+id, "heard")
	if got := listener.Next(t); string(got.Payload) != "heard" {
		t.Errorf("%q was heard", got.Payload)
	}
	listener.Drop()
	speaker.Send(t, "news/"+id, "kept")
	moved := from.Connect(t, "listener-"+id, kept)
	got := moved.Next(t)
	if string(got.Payload) == "heard" { // its acknowledgement was still on its way
		got = moved.Next(t)
	}
	if string(got.Payload) != "kept" {
		t.Errorf("%q was kept", got.Payload)
	}

	device := to.Device(t, "lamp-"+id, "lamp-"+id, `["light"]`)
	caller := from.Caller(t, "caller-"+id)
	eventually.Holds(t, "the agent is known", func() bool {
		return caller.Ask(t, bridgetest.Request(protocol.NewID(), "agent.get", fmt.Sprintf(`{"agent_id":"lamp-%s"}`, id))).Err == nil
	})
	caller.Send(t, "aibridge/bridge/request", bridgetest.Request(protocol.NewID(), "skill.invoke", fmt.Sprintf(`{"skill_id":"lamp-%s","capability_id":"light"}`, id)))
	device.Reply(t, "lamp-"+id, device.Invocation(t), map[string]any{"on": true})
	if answer := caller.Answer(t); answer.Err != nil {
		t.Error(answer.Err)
	}
}

// TestABridgeOfTwoVersionsBeforeIsRefused starts bridges beside one that is two versions
// of what bridges say to each other away.
func TestABridgeOfTwoVersionsBeforeIsRefused(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	a := together(t, url, "a", nil)
	for _, newer := range []int{-2, 2} {
		config := app.DefaultConfig()
		config.Data, config.Dev = t.TempDir(), true
		config.HTTP, config.MQTT.Address, config.WS, config.MQTTS = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "off"
		beside(t, url, "b", a)(&config)
		_, err := app.New(t.Context(), config, app.WithWire(newer), app.WithVersion("9.9"))
		says := fmt.Sprintf(`this bridge does not fit to bridge "a", which is in the cluster already: it speaks version %d of the bridges' protocol (release dev) and this one version %d (release 9.9); versions that differ by one work together, so go by the releases in between`, cluster.Wire, cluster.Wire+newer)
		if protocol.CodeOf(err) != protocol.StoreUnavailable || !strings.Contains(err.Error(), says) {
			t.Errorf("one that is newer by %d starts with %v", newer, err)
		}
	}
	if all := members(t, a.Caller(t, "caller")); len(all) != 1 {
		t.Errorf("members are %+v", all)
	}
}
