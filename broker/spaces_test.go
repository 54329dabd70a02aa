package broker

import (
	"context"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
)

// tenants lets users in whose names begin with their space, and the
// administrator.
func tenants(o *Options) {
	o.Authenticate = func(_ context.Context, shown Credentials) (*protocol.Principal, error) {
		who := &protocol.Principal{ID: shown.Username, Space: protocol.DefaultSpace}
		if space, _, ok := strings.Cut(shown.Username, "/"); ok {
			who.Space = protocol.SpaceID(space)
		} else {
			who.Roles = []string{protocol.RoleAdministrator}
		}
		return who, nil
	}
}

func TestWhatIsSaidInASpaceStaysThere(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		journal := new(MemoryJournal)
		kept := func(o *Options) { o.Journal = journal }
		n := startNode(t, readers, tenants, kept)
		red := n.connect(packet.V5, "red", as("red/a"))
		blue := n.connect(packet.V5, "blue", as("blue/a"))
		admin := n.connect(packet.V5, "admin", as("admin"))
		away := n.connect(packet.V5, "away", as("blue/b"), property(packet.SessionExpiry, 600))
		for _, p := range []*peer{red, blue, admin, away} {
			p.subscribe("#", 1)
		}
		n.cut(away, "away")
		red.publish(text("home/lamp", "off"))
		for _, p := range []*peer{red, admin} {
			p.take("off")
		}

		// A topic has one retained message for each space.
		for p, payload := range map[*peer]string{red: "red", blue: "blue"} {
			m := text("home/state", payload)
			m.Retain, m.QoS = true, 1
			if reason := n.connect(packet.V5, payload+"/d", as(payload+"/d")).publish(m); reason.Failed() {
				t.Fatal(reason)
			}
			p.acknowledge(p.take(payload))
			admin.acknowledge(admin.take(payload))
		}
		blue.quiet()
		red.quiet()
		n.stop()

		n = newNode(t, readers, tenants, kept)
		for user, want := range map[string]string{"red/c": "red", "blue/c": "blue"} {
			p := n.connect(packet.V5, user, as(user))
			p.subscribe("home/+", 0)
			p.take(want)
			p.quiet()
		}
		away = n.connect(packet.V5, "away", as("blue/b"), property(packet.SessionExpiry, 600), func(c *packet.Connect) { c.CleanStart = false })
		away.acknowledge(away.take("blue"))
		away.quiet()

		// What one clears is not cleared for others.
		blue = n.connect(packet.V5, "blue", as("blue/a"))
		gone := text("home/state", "")
		gone.Retain, gone.QoS = true, 1
		blue.publish(gone)
		left := make(map[protocol.SpaceID]string)
		for topic, space := range n.Retained("#") {
			left[space] = topic
		}
		if len(left) != 1 || left["red"] != "home/state" {
			t.Errorf("retained are %v", left)
		}
	})
}
