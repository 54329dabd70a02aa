package app_test

import (
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
)

// TestGroupsLiveOnAnExternalNATS is the tour of groups with the state
// elsewhere, and the bridge away in the middle of the dispatch.
func TestGroupsLiveOnAnExternalNATS(t *testing.T) {
	url := startNATS(t)
	n := bridgetest.Start(t, func(c *app.Config) { c.NATS.URL = url })
	one := n.Device(t, "one", "one", `["switch"]`)
	caller, listener := n.Caller(t, "caller"), n.Connect(t, "listener")
	home(t, caller, "one", "two")
	must(t, caller, "group.data.set", `{"cap_id":"home","group_id":"all","data_key":"brightness","data_value":80,"data_type":"number"}`)
	listener.Listen(t, "aibridge/cap/home/data/#")
	if p := listener.Next(t); !strings.Contains(string(p.Payload), `"data_value":80`) {
		t.Errorf("the listener sees %s", p.Payload)
	}
	id := dispatched(t, caller, `,"deadline_ms":300000,"completion":{"policy":"first","n":1}`)
	asked := one.Invocation(t)

	n.Restart(t)
	caller, listener = n.Caller(t, "caller"), n.Connect(t, "listener")
	listener.Listen(t, "aibridge/cap/home/data/all/brightness")
	if p := listener.Next(t); !strings.Contains(string(p.Payload), `"data_value":80`) {
		t.Errorf("after the restart the listener sees %s", p.Payload)
	}
	one = n.Connect(t, "one")
	one.Listen(t, "aibridge/agent/one/request")
	becomes(t, caller, id, "running: pending offline")
	one.Reply(t, "one", asked, map[string]bool{"on": true})
	if done := becomes(t, caller, id, "complete: ok cancelled"); string(done.Group.Members[0].Data) != `{"on":true}` {
		t.Errorf("one answered %s", done.Group.Members[0].Data)
	}
	must(t, caller, "cap.remove", `{"cap_id":"home","force":true}`)
	if p := listener.Next(t); len(p.Payload) != 0 {
		t.Errorf("the value stays: %s", p.Payload)
	}
}
