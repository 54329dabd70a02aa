package app_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm/wire/scripted"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/token"
)

// A workshop is a bridge with a device that takes calls and does not answer,
// and a model that calls it.
type workshop struct {
	*house
	model  *scripted.Server
	device *bridgetest.Raw
	clock  *clock.Clock
}

func newWorkshop(t *testing.T, script ...scripted.Reply) *workshop {
	w := &workshop{model: scripted.ForBridge(t, script...), clock: clock.Looking(10 * time.Millisecond)}
	w.house = newHouseWith(t, []app.Option{app.WithClock(w.clock)}, withModel(w.model))
	w.device = w.Device(t, "slow", "slow", `["wait"]`, withPassword("apikey", w.admin))
	return w
}

// timed is a key of an operator with a life, and what has it revoked.
func (w *workshop) timed(life time.Duration) (key string, revoke func()) {
	var made struct{ Key, Key_ID string }
	params := fmt.Sprintf(`{"principal_id":"olga","kind":"operator","roles":["operator"],"expires_in":%d}`, life/time.Second)
	if err := json.Unmarshal([]byte(w.must("key.create", params)), &made); err != nil {
		w.t.Fatal(err)
	}
	return made.Key, func() { w.must("key.revoke", fmt.Sprintf(`{"key_id":%q}`, made.Key_ID)) }
}

const wait = `{"skill_id":"slow","capability_id":"wait"}`

// TestWhatAKeyBeganEndsWithIt has calls of all sorts wait for a device when their
// key is revoked, or expires: the caller is told, the device is told to stop, and
// nothing more is begun.
func TestWhatAKeyBeganEndsWithIt(t *testing.T) {
	t.Parallel()
	four := strings.Repeat(`,{"command":"skill.invoke","params":`+wait+`}`, 4)[1:]
	begun := map[string]struct{ command, params string }{
		"a call":     {"skill.invoke", wait},
		"a batch":    {"batch.execute", `{"commands":[` + four + `]}`},
		"a question": {"llm.query", `{"query":"Wait.","tools":["slow.*"]}`},
		"a chat":     {"llm.chat", `{"message":"Wait.","tools":["slow.*"]}`},
	}
	for name, c := range begun {
		for _, how := range []string{"revoked", "expired"} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				var w *workshop
				var asked *protocol.Request
				answered := make(chan string, 1)
				for life := 3 * time.Second; asked == nil; life *= 2 { // until the device is asked before the key expires
					if how == "revoked" {
						life = time.Hour
					}
					w = newWorkshop(t, calls("slow.wait", `{}`, "slow.wait", `{}`), calls("slow.wait", `{}`))
					key, revoke := w.timed(life)
					go func() {
						_, body := post(t, w.HTTPURL("/api/v1/commands/"+c.command), c.params, "X-API-Key", key)
						answered <- string(body)
					}()
					asked = w.askedBefore(answered, life)
					if how == "revoked" {
						revoke()
					}
				}
				if told := w.device.Invocation(t); told.Command != "task.cancel" || !strings.Contains(string(told.Params), asked.ID) {
					t.Errorf("the device is told %s %s", told.Command, told.Params)
				}
				if body := <-answered; !strings.Contains(body, `"2002"`) || !strings.Contains(body, how) {
					t.Errorf("answered %s", body)
				}
				w.idle()
			})
		}
	}
}

// askedBefore is the earlier question to the device, nil if the caller is answered
// before.
func (w *workshop) askedBefore(answered <-chan string, life time.Duration) *protocol.Request {
	w.t.Helper()
	select {
	case p := <-w.device.Received:
		request, err := protocol.DecodeRequest(p.Payload, protocol.Limits{})
		if err != nil {
			w.t.Fatal(err)
		}
		return request
	case body := <-answered:
		if life > bridgetest.Patience {
			w.t.Fatalf("with %v to live, the key's call is answered %s", life, body)
		}
		return nil
	}
}

// idle waits until nothing is in flight any more, and fails if the device was
// asked for anything else.
func (w *workshop) idle() {
	w.t.Helper()
	eventually.Holds(w.t, "nothing is in flight", func() bool { return metric(w.t, w.Node, "aibridge_commands_in_flight ") == "0" })
	w.must("agent.list", `{}`) // whatever was published before it has arrived
	select {
	case p := <-w.device.Received:
		w.t.Errorf("the device got %s", p.Payload)
	default:
	}
}

func TestATaskEndsWithTheCredentialOfWhoStartedIt(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"revoked", "expired"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorkshop(t, calls("slow.wait", `{}`, "slow.wait", `{}`), calls("slow.wait", `{}`))
			key, end := w.timed(time.Hour)
			if how == "expired" {
				end = func() { w.clock.Step(2 * time.Hour) }
			}
			var tasks []string
			for _, c := range []struct{ command, params string }{
				{"skill.invoke", strings.Replace(wait, "{", `{"async":true,`, 1)},
				{"llm.query", `{"query":"Wait.","tools":["slow.*"],"async":true}`},
			} {
				code, body := w.run(key, c.command, c.params)
				if code != "" {
					t.Fatalf("%s: %s", c.command, body)
				}
				tasks = append(tasks, field(t, json.RawMessage(body), "task_id"))
				w.device.Invocation(t)
			}
			end()
			for range tasks {
				if told := w.device.Invocation(t); told.Command != "task.cancel" {
					t.Errorf("the device is told %s %s", told.Command, told.Params)
				}
			}
			for _, id := range tasks {
				eventually.Holds(t, "the task has ended", func() bool {
					body := w.must("task.get", fmt.Sprintf(`{"task_id":%q}`, id))
					return strings.Contains(body, `"failed"`) && strings.Contains(body, how)
				}, func() any { return w.must("task.get", fmt.Sprintf(`{"task_id":%q}`, id)) })
			}
			w.idle()
		})
	}
}

// TestNoNamespaceIsAGroupOfPolicies has a route agent name a command so that an
// observer might run it.
func TestNoNamespaceIsAGroupOfPolicies(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	route := h.key(protocol.KindAgent, "route", protocol.RoleRouteAgent)
	register := func(namespace string) (protocol.Code, string) {
		return h.run(route, "command.register", fmt.Sprintf(`{"agent_id":"route","namespace":%q,"commands":[{"name":%q,"summary":"Unlocks."}]}`, namespace+".*", namespace+".unlock"))
	}
	if code, body := h.run(route, "agent.register", `{"agent_id":"route","type":"end_agent"}`); code != "" {
		t.Fatal(body)
	}
	for _, namespace := range []string{"read", "write", "act", "tool", "topic", "administration", "extension", "audit", "mcp", "space", "role", "operator"} {
		if code, body := register(namespace); code != protocol.InvalidParameter {
			t.Errorf("%s: %s", namespace, body)
		}
	}
	if code, body := register("acme"); code != "" {
		t.Fatal(body)
	}
	observer := h.key(protocol.KindOperator, "otto", protocol.RoleObserver)
	if code, body := h.run(observer, "acme.unlock", `{}`); code != protocol.PermissionDenied || !strings.Contains(body, "extension:acme.unlock") {
		t.Errorf("an observer unlocks: %s", body)
	}
	if code, body := h.run(h.admin, "acme.unlock", `{}`); code != protocol.AgentOffline {
		t.Errorf("an administrator: %s", body)
	}
}

// TestARunIsJudgedAnewAfterARestart starts a workflow with a token of an issuer
// that is demoted, or gone, when the bridge has started again.
func TestARunIsJudgedAnewAfterARestart(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]struct {
		issuers func([]token.Issuer) []token.Issuer
		phase   string
		says    string
	}{
		"nothing changed": {func(all []token.Issuer) []token.Issuer { return all }, "WaitingUser", "Done."},
		"issuer gone":     {func([]token.Issuer) []token.Issuer { return nil }, "WaitingUser", "not trusted any more"},
		"issuer demoted": {func(all []token.Issuer) []token.Issuer {
			all[0].Roles = map[string]string{"admins": protocol.RoleObserver}
			return all
		}, "WaitingUser", "may not continue it: not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scripted.ForBridge(t, never())
			secret := fileOf(t, []byte(issuerSecret))
			n := bridgetest.Start(t, withModel(s), func(c *app.Config) {
				c.Dev = false
				c.Tokens.Issuers = []token.Issuer{{
					Issuer: "hs", Secret: secret, Kind: protocol.KindOperator, RolesClaim: "groups", Roles: map[string]string{"admins": protocol.RoleOperator},
				}}
			})
			n.Device(t, "lamp", "lamp", `["on"]`, withPassword("apikey", adminKey(t, n)))
			text := sign(t, jwt.SigningMethodHS256, []byte(issuerSecret), claims("olga", "groups", []string{"admins"}))
			c := n.Caller(t, "olga", withPassword("jwt", text))
			id := runAs(t, c, `{"input":"Light!","project":"notes"}`)
			eventually.Holds(t, "the model is asked", func() bool { return len(s.Requests()) == 1 })
			n.Stop(t)
			s.Play(callsFor("fs_write", `{"path":"@project/note.md","content":"mine"}`), says("Done."))
			n.Config.Tokens.Issuers = change.issuers(n.Config.Tokens.Issuers)
			n.Restart(t)
			admin := n.Caller(t, "admin", withPassword("apikey", adminKey(t, n)))
			phase, message := restOf(t, admin, id)
			if phase != change.phase || !strings.Contains(message, change.says) {
				t.Errorf("the run is %s: %s", phase, message)
			}
			list := string(must(t, admin, "vfs.list", `{"group_name":"notes"}`))
			if wrote := strings.Contains(list, "note.md"); wrote != (name == "nothing changed") {
				t.Errorf("files: %s", list)
			}
		})
	}
}

// TestAWorkflowsWritesAreJudgedOneByOne has policy forbid what a workflow was
// allowed when it began.
func TestAWorkflowsWritesAreJudgedOneByOne(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, project := range []string{"notes", "shared"} {
		t.Run(project, func(t *testing.T) {
			t.Parallel()
			held := make(chan struct{})
			s := scripted.ForBridge(t, callsFor("fs_write", `{"path":"@project/early.md","content":"x"}`),
				callsFor("fs_write", `{"path":"@project/late.md","content":"x"}`), says("Done."))
			s.Before = func() {
				if len(s.Requests()) == 2 {
					<-held
				}
			}
			n := bridgetest.Start(t, withModel(s), func(c *app.Config) {
				c.Dev = false
				c.Runs.Folders = map[string]string{"shared": folder}
			})
			admin := n.Caller(t, "admin", withPassword("apikey", adminKey(t, n)))
			key := field(t, must(t, admin, "key.create", `{"principal_id":"olga","kind":"operator","roles":["operator"]}`), "key")
			c := n.Caller(t, "olga", withPassword("apikey", key))
			id := runAs(t, c, fmt.Sprintf(`{"input":"Write","project":%q}`, project))
			eventually.Holds(t, "it has written once", func() bool { return len(s.Requests()) == 2 })
			must(t, admin, "policy.put", `{"name":"notes","policy":"forbid (principal == Operator::\"olga\", action == Action::\"vfs:write\", resource);"}`)
			close(held)
			if phase, message := restOf(t, c, id); phase != "WaitingUser" || message != "Done." {
				t.Errorf("the run is %s: %s", phase, message)
			}
			if told := toldAt(t, s, 2); !strings.Contains(told, "not allowed") {
				t.Errorf("the model reads\n%s", told)
			}
			found := ""
			if project == "shared" {
				entries, _ := os.ReadDir(folder)
				found = fmt.Sprint(entries)
			} else {
				found = string(must(t, admin, "vfs.list", `{"group_name":"notes"}`))
			}
			if !strings.Contains(found, "early.md") || strings.Contains(found, "late.md") {
				t.Errorf("files: %s", found)
			}
		})
	}
}
