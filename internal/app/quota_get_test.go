package app_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security"
)

// quotas are those of a principal, as somebody is told, by limit.
func quotas(t *testing.T, body string) (own, space map[string]security.QuotaView, all security.QuotaGetResult) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	own, space = make(map[string]security.QuotaView), make(map[string]security.QuotaView)
	for _, v := range all.Principal {
		own[v.Limit] = v
	}
	for _, v := range all.Space {
		space[v.Limit] = v
	}
	return own, space, all
}

// TestQuotasAreShownForAllBridgesAndForEach has a device take of its limits at two
// bridges.
func TestQuotasAreShownForAllBridgesAndForEach(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	bounded := func(c *app.Config) { c.Quotas.Principal.Connections, c.Quotas.Space.Connections = 8, 20 }
	a := newHouse(t, beside(t, url, "a", nil), bounded)
	b := &house{Node: bridgetest.Start(t, beside(t, url, "b", a.Node), bounded, func(c *app.Config) { c.Dev = false }), t: t, admin: a.admin}
	lamp := a.key(protocol.KindAgent, "lamp", protocol.RoleEndAgent)
	one := a.connect("lamp-1", lamp)
	b.connect("lamp-2", lamp)
	b.connect("lamp-3", lamp)
	if answer := b.ask(one, "agent.register", `{"agent_id":"lamp","type":"end_agent"}`); answer.Err != nil {
		t.Fatal(answer.Err)
	}
	if _, err := one.Publish(t.Context(), &paho.Publish{Topic: "home/lamp", QoS: 1, Retain: true, Payload: []byte("on")}); err != nil {
		t.Fatal(err)
	}
	for _, at := range []struct {
		*house
		here   int64
		others map[string]int64
	}{{a, 1, map[string]int64{"b": 2}}, {b, 2, map[string]int64{"a": 1}}} {
		eventually.Holds(t, "the whole is told at "+at.Config.ID, func() bool {
			own, space, all := quotas(t, at.must("quota.get", `{"principal_id":"lamp"}`))
			c := own["connections"]
			return all.BridgeID == at.Config.ID && len(all.Silent) == 0 &&
				c.Most == 8 && c.Used == 3 && c.UsedHere == at.here && maps.Equal(c.Bridges, at.others) &&
				space["connections"].Most == 20 && space["connections"].Used == 3 &&
				own["records"].Used == 1 && own["records"].Bridges == nil && own["records"].Most > 0 &&
				own["retained"].Used == 1 && own["retained_bytes"].Used > 0 && own["requests"].Most > 0
		})
	}
	if own, _, all := quotas(t, a.must("quota.get", `{}`)); all.PrincipalID != "administrator" || own["requests"].Most != 0 {
		t.Errorf("of the administrator: %+v", all)
	}
	if own, _, _ := quotas(t, a.must("quota.get", `{"principal_id":"administrator","kind":"operator"}`)); own["requests"].Most != 0 {
		t.Error("an administrator who is named has the limits of others")
	}
	operator := a.key(protocol.KindOperator, "anna", protocol.RoleOperator)
	if code, body := a.run(operator, "quota.get", `{"principal_id":"lamp","space_id":"elsewhere"}`); code != protocol.NotFound {
		t.Errorf("an operator sees another space: %s", body)
	}
	if code, body := a.run(lamp, "quota.get", `{"principal_id":"anna","kind":"operator"}`); code != protocol.PermissionDenied {
		t.Errorf("a device sees the quotas of an operator: %s", body)
	}
}

// TestARevisionIsCarriedFromOneBridgeToAnother has a client of the SDK read at one
// bridge what it has written at another.
func TestARevisionIsCarriedFromOneBridgeToAnother(t *testing.T) {
	t.Parallel()
	_, nodes, key := two(t)
	writer, reader := nodes[0].Dial(t, client.WithAPIKey(key)), nodes[1].Dial(t, client.WithAPIKey(key))
	var written, read uint64
	params := map[string]any{"name": "tried", "policy": `permit (principal, action == Action::"agent:list", resource);`}
	if _, err := client.Call[json.RawMessage](t.Context(), writer, "policy.put", params, client.Revision(&written)); err != nil || written == 0 {
		t.Fatalf("revision %d, %v", written, err)
	}
	named := map[string]any{"name": "tried"}
	if _, err := client.Call[json.RawMessage](t.Context(), reader, "policy.get", named, client.MinRevision(written), client.Revision(&read)); err != nil || read != 0 {
		t.Errorf("read, with revision %d: %v", read, err)
	}
	if _, err := client.Call[json.RawMessage](t.Context(), reader, "policy.get", named, client.MinRevision(1<<50)); protocol.CodeOf(err) != protocol.InvalidParameter {
		t.Errorf("a revision that there never was: %v", err)
	}
}
