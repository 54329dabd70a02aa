package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/commands/status"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/freeport"
	"github.com/aibridge/aibridge/protocol"
)

// remove asks for the removal of a bridge until the servers of NATS answer, which elect
// leaders after one of them was lost.
func remove(t *testing.T, c *bridgetest.Raw, id string) (answer *protocol.Response, result status.RemoveResult) {
	t.Helper()
	eventually.Holds(t, "the store answers", func() bool {
		answer = c.Ask(t, bridgetest.Request(protocol.NewID(), "bridge.remove", fmt.Sprintf(`{"bridge_id":%q}`, id)))
		return answer.Err == nil || answer.Err.Code != protocol.StoreUnavailable && answer.Err.Code != protocol.OutcomeUnknown
	})
	if answer.Err == nil {
		if err := json.Unmarshal(answer.Result, &result); err != nil {
			t.Fatal(err)
		}
	}
	return answer, result
}

// isRemoved removes a bridge.
func isRemoved(t *testing.T, c *bridgetest.Raw, id string) status.RemoveResult {
	t.Helper()
	answer, result := remove(t, c, id)
	if answer.Err != nil {
		t.Fatalf("%s is not removed: %v", id, answer.Err)
	}
	return result
}

// peersNamed reports whether the metrics of a bridge have readings of another one.
func peersNamed(t *testing.T, n *bridgetest.Node, id string) bool {
	t.Helper()
	response, err := bridgetest.HTTPClient(t).Get(n.HTTPURL("/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, err)
	}
	return strings.Contains(string(text), fmt.Sprintf("peer=%q", id))
}

// TestABridgeIsRemovedAndAnotherTakesItsPlace removes one of three bridges that form
// their cluster, once it has ended, and has one with another id, data folder and address
// take its place. The kept session of a client of the removed one goes on, whoever is
// lost afterwards.
func TestABridgeIsRemovedAndAnotherTakesItsPlace(t *testing.T) {
	join := freeport.Addresses(4)
	fresh, join := join[3], join[:3]
	key := keyFile(t, "")
	nodes := startAll(t, formed(join, key, 0, join[0]), formed(join, key, 1, join[1]), formed(join, key, 2, join[2]))
	c := nodes[0].Caller(t, "caller")
	know(t, c, 3)
	must(t, c, "cap.declare", `{"cap_id":"before","skill_id":"lamp","cap_name":"Before"}`)
	keeper := nodes[2].Connect(t, "keeper", kept)
	keeper.Listen(t, "door/#")
	keeper.Drop()

	for id, says := range map[string]string{"b2": `bridge "b2" is a member`, "b0": `bridge "b0" answers this request`} {
		answer, _ := remove(t, c, id)
		isRefused(t, answer, protocol.InvalidState, says)
	}
	answer, _ := remove(t, c, "nobody")
	isRefused(t, answer, protocol.NotFound, `never known a bridge "nobody"`)
	nodes[2].Stop(t)
	eventually.Holds(t, "the copy of the one that has ended is missed", func() bool {
		return strings.Contains(string(must(t, c, "bridge.cluster", `{}`)), `"absent":[{"id":"b2","state":"left"`)
	})
	gone := isRemoved(t, c, "b2")
	if !gone.Kept || gone.Already || gone.Keepers != 2 || gone.Lacking == 0 || gone.Address != join[2] || gone.ServedBy == "" {
		t.Errorf("the answer is %+v", gone)
	}
	if again := isRemoved(t, c, "b2"); again.Kept || !again.Already || again.Keepers != 2 {
		t.Errorf("the answer to the second request is %+v", again)
	}
	eventually.Holds(t, "nobody misses the removed one", func() bool {
		return !strings.Contains(string(must(t, c, "bridge.cluster", `{}`)), `"absent"`)
	})
	c.Send(t, "door/front", "open")

	back := nodes[2].Config
	for range 2 { // its server votes until the bridge knows that it was removed
		err := refused(t, func(c *app.Config) { data := back.Data; formed(join, key, 2, join[2])(c); c.Data = data })
		if !strings.Contains(err, `bridge "b2" was removed from the cluster`) {
			t.Errorf("the removed bridge does not start because %s", err)
		}
	}
	if again := isRemoved(t, c, "b2"); again.Kept || again.Keepers != 2 {
		t.Errorf("after it was there again the answer is %+v", again)
	}

	list := []string{join[0], join[1], fresh}
	if err := refused(t, formed([]string{join[0], freeport.Address(), fresh}, key, 3, fresh)); !strings.Contains(err, "cluster.join is") {
		t.Errorf("another list is refused because %s", err)
	}
	third := bridgetest.Start(t, formed(list, key, 3, fresh))
	t.Cleanup(func() { _ = third.End(t) })
	eventually.Holds(t, "all streams have all copies again", func() bool {
		again := isRemoved(t, c, "b2")
		return again.Keepers == 3 && again.Lacking == 0 && again.Address == ""
	})
	home := third.Connect(t, "keeper", kept)
	if !home.Connack.SessionPresent {
		t.Error("the session is not there")
	}
	isTold(t, home, "door/front", "open")
	eventually.Holds(t, "nothing is left of the removed bridge", func() bool {
		return isRemoved(t, c, "b2").ServedBy == "" && !peersNamed(t, nodes[0], "b2") && peersNamed(t, nodes[0], "b3")
	})
	nodes[0].Stop(t) // and any one of three may be lost again
	c = third.Caller(t, "caller")
	eventually.Holds(t, "the others store what comes", func() bool {
		return c.Ask(t, bridgetest.Request(protocol.NewID(), "cap.declare", `{"cap_id":"after","skill_id":"lamp","cap_name":"After"}`)).Err == nil
	})
	if caps := string(must(t, c, "cap.query", `{}`)); !strings.Contains(caps, `"before"`) {
		t.Errorf("the new bridge has the Caps %s", caps)
	}
}

// TestABridgeAloneRemovesNobody asks one that is in no cluster.
func TestABridgeAloneRemovesNobody(t *testing.T) {
	t.Parallel()
	answer, _ := remove(t, bridgetest.Start(t).Caller(t, "caller"), "b2")
	isRefused(t, answer, protocol.InvalidState, "is in no cluster")
}

// TestABridgeOnNATSIsRemoved removes one of two bridges on a NATS that they do not form.
func TestABridgeOnNATSIsRemoved(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	a := together(t, url, "a", nil)
	b := together(t, url, "b", a)
	c := a.Caller(t, "caller")
	know(t, c, 2)
	b.Stop(t)
	isRemoved(t, c, "b")
	eventually.Holds(t, "it is known to be gone, and had no sessions", func() bool {
		return isRemoved(t, c, "b") == status.RemoveResult{BridgeID: "b", Already: true}
	})
	if err := refused(t, beside(t, url, "b", a)); !strings.Contains(err, `bridge "b" was removed from the cluster`) {
		t.Errorf("the removed bridge does not start because %s", err)
	}
}
