package broker

import (
	"context"
	"strings"
	"sync/atomic"
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

func TestNothingIsPublishedForNobody(t *testing.T) {
	n := newNode(t, 1)
	all := n.connect(packet.V5, "all")
	all.subscribe("#", 1)
	someone := protocol.Only(protocol.Party{Space: protocol.DefaultSpace, ID: "user:"})
	for name, refused := range map[string]struct {
		to protocol.Recipients
		m  protocol.Message
	}{
		"to nobody":          {protocol.Recipients{}, protocol.Message{Topic: "x"}},
		"in no space":        {protocol.Everybody(""), protocol.Message{Topic: "x"}},
		"retained, for some": {someone, protocol.Message{Topic: "x", Payload: []byte("x"), Retain: true}},
	} {
		if _, err := n.Publish(refused.to, refused.m); protocol.CodeOf(err) != protocol.Internal {
			t.Errorf("%s: %v", name, err)
		}
	}
	all.quiet()
}

// TestWhatASessionLeavesBehindGoesToThoseItIsFor has a message wait for a member
// of a shared subscription whose session ends: another member gets it, which
// must be one of those whom it is for.
func TestWhatASessionLeavesBehindGoesToThoseItIsFor(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, tenants)
		first := n.connect(packet.V5, "first", as("red/lamp"), property(packet.SessionExpiry, 600))
		first.subscribe("$share/g/secret", 1)
		n.cut(first, "first")
		to := protocol.Only(protocol.Party{Space: "red", ID: "red/lamp"})
		if _, err := n.Publish(to, protocol.Message{Topic: "secret", Payload: []byte("for the lamp"), QoS: 1}); err != nil {
			t.Fatal(err)
		}
		spy, admin := n.connect(packet.V5, "spy", as("red/spy")), n.connect(packet.V5, "admin", as("admin"))
		second := n.connect(packet.V5, "second", as("red/lamp"))
		for _, p := range []*peer{spy, admin, second} {
			p.subscribe("$share/g/secret", 1)
		}
		n.Kick(SessionID{"red", "first"}, true)
		second.acknowledge(second.take("for the lamp"))
		spy.quiet()
		admin.quiet()
	})
}

// TestWhatWasRetainedForAnySpaceBelongsToTheDefaultOne reads the journal of a
// bridge that did not say for whom messages are.
func TestWhatWasRetainedForAnySpaceBelongsToTheDefaultOne(t *testing.T) {
	journal := new(MemoryJournal)
	var values []KeyedValue
	for _, name := range []string{"old", "both"} {
		values = append(values, KeyedValue{keyRetained + name, appendMessage(nil, &message{topic: name, payload: []byte(name), retain: true}, 0)})
	}
	newer := &message{topic: "both", payload: []byte("newer"), retain: true, to: everybody(protocol.DefaultSpace)}
	values = append(values, KeyedValue{keyRetained + "default\x00both", appendMessage(nil, newer, 0)})
	if _, err := journal.Write(t.Context(), values, nil); err != nil {
		t.Fatal(err)
	}
	kept := func(o *Options) { o.Journal = journal }
	for range 2 { // and again
		n := startNode(t, 1, tenants, kept)
		p := n.connect(packet.V5, "p", as("default/p"))
		p.subscribe("old", 0)
		p.take("old")
		p.subscribe("both", 0)
		p.take("newer")
		p.quiet()
		tenant := n.connect(packet.V5, "tenant", as("red/p"))
		tenant.subscribe("#", 0)
		tenant.quiet()
		n.stop()
	}
	if _, left := journal.keyed[keyRetained+"old"]; left {
		t.Error("the old record is still there")
	}
}

// TestAClientIDIsOneOfItsSpace has two tenants and the administrator call their
// clients the same.
func TestAClientIDIsOneOfItsSpace(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		journal := new(MemoryJournal)
		kept := func(o *Options) { o.Journal = journal }
		lamp := func(n *node, user string) *peer {
			return n.connect(packet.V5, "lamp", as(user), property(packet.SessionExpiry, 600), func(c *packet.Connect) { c.CleanStart = false })
		}
		n := startNode(t, readers, tenants, kept)
		red, blue, admin := lamp(n, "red/a"), lamp(n, "blue/a"), lamp(n, "admin")
		red.subscribe("x", 1)
		blue.subscribe("x", 1)
		admin.subscribe("x", 1, func(s *packet.Subscribe) { s.Filters[0].NoLocal = true })
		red.publish(text("x", "red"))
		admin.take("red") // is not the administrator's own, although its client is called so
		red.take("red")
		blue.quiet()

		n.Disconnect(SessionID{"red", "lamp"}, byte(packet.AdministrativeAction), "")
		if why := red.ended(); why != packet.AdministrativeAction {
			t.Errorf("red ended with %v", why)
		}
		waits := text("x", "waits")
		waits.QoS = 1
		n.connect(packet.V5, "from", as("red/b")).publish(waits)
		admin.acknowledge(admin.take("waits"))
		blue.quiet()
		if reason := n.tryConnect(packet.V5, "lamp", as("red/c")).connack.Reason; reason != packet.NotAuthorized {
			t.Errorf("another principal of the space: %v", reason)
		}
		n.stop()

		n = newNode(t, readers, tenants, kept)
		if all := n.Sessions(); len(all) != 3 || all[0].Space != "blue" || all[1].Space != protocol.DefaultSpace || all[2].Space != "red" {
			t.Errorf("sessions are %+v", all)
		}
		n.Kick(SessionID{"blue", "lamp"}, true)
		red = lamp(n, "red/a")
		red.acknowledge(red.take("waits"))
		if _, left := n.Session(SessionID{"blue", "lamp"}); left {
			t.Error("blue's session is still there")
		}
	})
}

// TestSpacesShareNoSubscription has an administrator, who hears every space,
// join a group that is called as a tenant's.
func TestSpacesShareNoSubscription(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers, tenants)
		worker, admin := n.connect(packet.V5, "worker", as("red/a")), n.connect(packet.V5, "admin", as("admin"))
		worker.subscribe("$share/g/work", 0)
		admin.subscribe("$share/g/work", 0)
		from := n.connect(packet.V5, "from", as("red/b"))
		for _, job := range []string{"1", "2", "3"} {
			from.publish(text("work", job))
			worker.take(job)
			admin.take(job)
		}
	})
}

// TestSessionsOfEarlierBridgesMoveIntoTheirSpaces reads a journal in which
// sessions are known by their client ids alone.
func TestSessionsOfEarlierBridgesMoveIntoTheirSpaces(t *testing.T) {
	journal := new(MemoryJournal)
	kept := func(o *Options) { o.Journal = journal }
	keep := func(user string) []func(*packet.Connect) {
		return []func(*packet.Connect){as(user), property(packet.SessionExpiry, 600), func(c *packet.Connect) { c.CleanStart = false }}
	}
	n := startNode(t, 1, tenants, kept)
	lamp, fan := n.connect(packet.V5, "lamp", keep("red/lamp")...), n.connect(packet.V5, "home/fan", keep("admin")...)
	lamp.subscribe("x", 1)
	fan.subscribe("y", 1)
	n.cut(lamp, "lamp")
	waits := text("x", "waits")
	waits.QoS = 1
	n.connect(packet.V5, "from", as("red/b")).publish(waits)
	n.stop()
	journal = journal.Copy()
	for key, value := range journal.keyed { // as it was written before
		if _, id, ok := strings.Cut(key, "\x00"); ok && strings.HasPrefix(key, keySession) {
			delete(journal.keyed, key)
			journal.keyed[keySession+id] = value
		}
	}

	for range 2 { // and again
		n = startNode(t, 1, tenants, kept)
		if _, ok := n.Session(SessionID{protocol.DefaultSpace, "home/fan"}); !ok {
			t.Error("the administrator's session is lost")
		}
		if _, ok := n.Session(SessionID{"red", "lamp"}); !ok {
			t.Error("the tenant's session is lost")
		}
		n.stop()
	}
	n = startNode(t, 1, tenants, kept)
	lamp = n.connect(packet.V5, "lamp", keep("red/lamp")...)
	lamp.acknowledge(lamp.take("waits"))
	n.Kick(SessionID{"red", "lamp"}, true)
	n.Kick(SessionID{protocol.DefaultSpace, "home/fan"}, true)
	n.stop()
	for key := range journal.keyed {
		if strings.HasPrefix(key, keySession) {
			t.Errorf("%q is still there", key)
		}
	}
}

// TestWhoMayHearLessIsNotOwedWhatItMayNotHear has messages of other spaces wait
// for somebody who may do everything, and comes back when it may not.
func TestWhoMayHearLessIsNotOwedWhatItMayNotHear(t *testing.T) {
	everywhere(t, func(t *testing.T, readers int) {
		journal := new(MemoryJournal)
		var role atomic.Value
		kept := func(o *Options) {
			o.Journal = journal
			o.Authenticate = func(_ context.Context, shown Credentials) (*protocol.Principal, error) {
				who := &protocol.Principal{ID: shown.Username, Space: "blue", Roles: []string{role.Load().(string)}}
				if space, _, ok := strings.Cut(shown.Username, "/"); ok {
					who.Space, who.Roles = protocol.SpaceID(space), nil
				}
				return who, nil
			}
		}
		session := func(c *packet.Connect) { c.CleanStart = false }
		for _, restarts := range []bool{false, true} {
			role.Store(protocol.RoleAdministrator)
			n := startNode(t, readers, kept)
			boss := n.connect(packet.V5, "boss", as("boss"), property(packet.SessionExpiry, 600), session)
			boss.subscribe("#", 1)
			n.cut(boss, "boss")
			for _, who := range []string{"red", "blue"} {
				m := text("home/door", who+"'s code")
				m.QoS = 1
				if reason := n.connect(packet.V5, who, as(who+"/a")).publish(m); reason.Failed() {
					t.Fatal(reason)
				}
			}
			if restarts {
				n.stop()
				n = startNode(t, readers, kept)
			}
			role.Store(protocol.RoleOperator)
			boss = n.connect(packet.V5, "boss", as("boss"), property(packet.SessionExpiry, 600), session)
			boss.acknowledge(boss.take("blue's code"))
			boss.quiet()
			n.stop()
		}
	})
}
