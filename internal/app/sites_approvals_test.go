package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/wire/scripted"
	"github.com/aibridge/aibridge/protocol"
)

// A consulted is a plant whose model wants to do what people at the centre have to agree to.
type consulted struct {
	*plant
	bob string // key of an operator at the edge, who asks the model
}

// newConsulted makes a plant whose lamp is dangerous, and whose model calls it with each of some
// arguments, one in each conversation.
func newConsulted(t *testing.T, arguments ...string) *consulted {
	var script []scripted.Reply
	for _, n := range arguments {
		script = append(script, calls("light.set", fmt.Sprintf(`{"n":%q}`, n)), says("That is it."))
	}
	model := scripted.ForBridge(t, script...)
	a := &consulted{plant: newPlantOf(t, func(c *app.Config) {
		withModel(model)(c)
		c.Sites.Join.Approvals = []string{"light.*"}
		c.Approvals.Rules = []approval.RuleSettings{{Deciders: approval.Deciders{People: []string{"centre"}}}}
	})}
	a.bob = a.edge.key(protocol.KindOperator, "bob", "operator")
	a.riskyLamp("lamp", "light", "high")
	a.becomes("plant.lamp", "online")
	return a
}

// asks has the model at the edge call the lamp, and returns the task that waits.
func (a *consulted) asks() (task string) {
	a.t.Helper()
	status, body := post(a.t, a.edge.HTTPURL("/api/v1/commands/llm.query"), `{"query":"Light!","tools":["light.*"],"approval_wait_ms":0}`, "X-API-Key", a.bob)
	var got struct {
		Waiting struct {
			Task string `json:"task_id"`
		}
	}
	if err := json.Unmarshal(body, &got); err != nil || status != http.StatusAccepted || got.Waiting.Task == "" {
		a.t.Fatalf("the model is answered with %d %s", status, body)
	}
	return got.Waiting.Task
}

// approvals lists those of a bridge, in a state.
func (a *consulted) approvals(h *house, key, state string) []approval.Approval {
	a.t.Helper()
	var code protocol.Code
	var body string
	eventually.Holds(a.t, "the bridge has room", func() bool {
		code, body = h.run(key, "approval.list", fmt.Sprintf(`{"state":%q}`, state))
		return code != protocol.Busy
	})
	var got struct{ Approvals []approval.Approval }
	if err := json.Unmarshal([]byte(body), &got); code != "" || err != nil {
		a.t.Fatalf("%s %v", body, err)
	}
	return got.Approvals
}

// waitsAtCentre is the only approval that waits there.
func (a *consulted) waitsAtCentre() (waits approval.Approval) {
	a.t.Helper()
	eventually.Holds(a.t, "the centre is asked", func() bool {
		list := a.approvals(a.centre, a.person, "pending")
		if len(list) == 1 {
			waits = list[0]
		}
		return len(list) == 1
	})
	return waits
}

func (a *consulted) decides(w approval.Approval, decision, reason string) {
	a.t.Helper()
	code, body := a.centre.run(a.person, "approval.decide", fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"decision":%q,"reason":%q}`, w.ID, w.Nonce, decision, reason))
	if code != "" {
		a.t.Fatal(body)
	}
}

// ends waits until a task at the edge has ended, and returns what it says.
func (a *consulted) ends(task string) (text string) {
	a.t.Helper()
	eventually.Holds(a.t, "the call has ended", func() bool {
		var code protocol.Code
		code, text = a.edge.run(a.bob, "task.get", fmt.Sprintf(`{"task_id":%q}`, task))
		return code == "" && strings.Contains(text, `"state":"succeeded"`)
	}, &text)
	return text
}

// TestPeopleOfTheCentreDecideAboutCallsAtASite has calls wait while the line is cut, before
// the centre is asked and before it has answered.
func TestPeopleOfTheCentreDecideAboutCallsAtASite(t *testing.T) {
	t.Parallel()
	a := newConsulted(t, "approved", "denied")
	a.line.rests(true)
	a.becomes("plant.lamp", "offline")
	task := a.asks()
	own := a.approvals(a.edge, a.bob, "pending")
	if len(own) != 1 {
		t.Fatalf("at the edge there wait %+v", own)
	}
	other := a.edge.key(protocol.KindOperator, "carl", "operator")
	if code, body := a.edge.run(other, "approval.decide", fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"decision":"approve"}`, own[0].ID, own[0].Nonce)); code != protocol.PermissionDenied {
		t.Errorf("somebody at the edge decides: %s", body)
	}
	a.line.rests(false)
	w := a.waitsAtCentre()
	if w.Tool != "plant.light.set" || string(w.Args) != `{"n":"approved"}` || w.Requester != "plant-bridge" || w.Risk != "high" || !strings.Contains(w.Why, "operator/bob at the site plant") {
		t.Errorf("the centre is asked %+v", w)
	}
	if code, body := a.centre.run(a.person, "approval.edit", fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"arguments":{"n":"other"}}`, w.ID, w.Nonce)); code != protocol.InvalidState {
		t.Errorf("it is changed at the centre: %s", body)
	}
	a.line.rests(true)
	a.decides(w, "approve", "it is dark")
	if a.ran("approved") != 0 {
		t.Error("the lamp is set before the line is back")
	}
	a.line.rests(false)
	if text := a.ends(task); !strings.Contains(text, "That is it.") || a.ran("approved") != 1 {
		t.Errorf("the lamp was set %d times: %s", a.ran("approved"), text)
	}
	if used := a.approvals(a.edge, a.bob, "used"); len(used) != 1 || used[0].DecidedBy != "centre" || used[0].Reason != "ann at the centre: it is dark" {
		t.Errorf("at the edge: %+v", used)
	}
	eventually.Holds(t, "the centre knows", func() bool { return len(a.approvals(a.centre, a.person, "used")) == 1 })

	task = a.asks()
	a.decides(a.waitsAtCentre(), "deny", "it is day")
	a.ends(task)
	if gone := a.approvals(a.edge, a.bob, "denied"); len(gone) != 1 || gone[0].Reason != "ann at the centre: it is day" || a.ran("denied") != 0 {
		t.Errorf("at the edge: %+v; the lamp was set %d times", gone, a.ran("denied"))
	}
}

// TestACentreIsNotAskedAnyMore about a call that has ended at the site, also if the site was
// restarted and the line was cut meanwhile.
func TestACentreIsNotAskedAnyMore(t *testing.T) {
	t.Parallel()
	a := newConsulted(t, "one")
	task := a.asks()
	w := a.waitsAtCentre()
	a.line.rests(true)
	if code, body := a.edge.run(a.bob, "task.cancel", fmt.Sprintf(`{"task_id":%q}`, task)); code != "" {
		t.Fatal(body)
	}
	a.edge.Restart(t)
	a.line.rests(false)
	eventually.Holds(t, "the centre is not asked any more", func() bool {
		gone := a.approvals(a.centre, a.person, "withdrawn")
		return len(gone) == 1 && gone[0].ID == w.ID
	})
}

// TestACentreIsToldWhatWasNotTakenOver has the centre agree to a call that is cancelled at the
// site before that learns of it, and is restarted.
func TestACentreIsToldWhatWasNotTakenOver(t *testing.T) {
	t.Parallel()
	a := newConsulted(t, "one")
	task := a.asks()
	w := a.waitsAtCentre()
	a.line.rests(true)
	a.becomes("plant.lamp", "offline")
	a.decides(w, "approve", "")
	if code, body := a.edge.run(a.bob, "task.cancel", fmt.Sprintf(`{"task_id":%q}`, task)); code != "" {
		t.Fatal(body)
	}
	a.edge.Restart(t)
	a.line.rests(false)
	eventually.Holds(t, "the centre is asked no more", func() bool { return len(a.approvals(a.centre, a.person, "approved")) == 0 })
	if gone := a.approvals(a.centre, a.person, "withdrawn"); len(gone) != 1 || gone[0].ID != w.ID || a.ran("one") != 0 {
		t.Errorf("at the centre are withdrawn %+v; the lamp was set %d times", gone, a.ran("one"))
	}
}

// TestASiteAsksUnderItsNameAlone and sees and ends nothing that it has not asked.
func TestASiteAsksUnderItsNameAlone(t *testing.T) {
	t.Parallel()
	a := newConsulted(t, "one")
	a.asks()
	w := a.waitsAtCentre()
	request := func(id, site string) string {
		return fmt.Sprintf(`{"approval_id":%q,"site":%q,"tool":"light.set","arguments":{},"why":"so","asked_by":"operator/x","expires_at":9999999999999}`, id, site)
	}
	const free = "01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10"
	device := a.centre.key(protocol.KindAgent, "thing", "end_agent")
	stray := a.centre.key(protocol.KindAgent, "stray", "site")
	for name, c := range map[string]struct {
		key, command, params string
		code                 protocol.Code
	}{
		"another name":       {a.key, "approval.request", request(free, "ship"), protocol.PermissionDenied},
		"a device":           {device, "approval.request", request(free, "plant"), protocol.PermissionDenied},
		"a key of no site":   {stray, "approval.request", request(free, "plant"), protocol.PermissionDenied},
		"a person":           {a.person, "approval.request", request(free, "plant"), protocol.PermissionDenied},
		"no site's name":     {a.person, "approval.request", request(free, "ship"), protocol.PermissionDenied},
		"another's approval": {stray, "approval.close", fmt.Sprintf(`{"approval_id":%q}`, w.ID), protocol.NotFound},
		"its own decision":   {a.key, "approval.decide", fmt.Sprintf(`{"approval_id":%q,"nonce":%q,"decision":"approve"}`, w.ID, w.Nonce), protocol.PermissionDenied},
		"a bad id":           {a.key, "approval.request", request("x", "plant"), protocol.InvalidParameter},
		"no object":          {a.key, "approval.request", strings.Replace(request(free, "plant"), "{}", "[]", 1), protocol.InvalidParameter},
	} {
		if code, body := a.centre.run(c.key, c.command, c.params); code != c.code {
			t.Errorf("%s: %s, want %s", name, body, c.code)
		}
	}
	if trail := a.centre.must("audit.query", `{"event":"approval.request","code":"ok"}`); strings.Contains(trail, w.ID) {
		t.Errorf("the trail has every repeat of the question: %s", trail)
	}
	if trail := a.centre.must("audit.query", `{"event":"approval.requested"}`); !strings.Contains(trail, w.ID) {
		t.Errorf("the trail has no question: %s", trail)
	}
	if list := a.approvals(a.centre, stray, "pending"); len(list) != 0 {
		t.Errorf("another site sees %+v", list)
	}
}
