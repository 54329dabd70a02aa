package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/wire/scripted"
	"github.com/aibridge/aibridge/protocol"
)

// TestADelayedMessageOutlivesItsBridge declares the bridge dead that took a message for
// later: another one publishes it, not before its time and once.
func TestADelayedMessageOutlivesItsBridge(t *testing.T) {
	t.Parallel()
	url, n := three(t)
	here := n[2].Connect(t, "here")
	here.Listen(t, "rooms/#")
	says, later := n[0].Connect(t, "says"), n[1].Connect(t, "later")
	began := time.Now()
	if code := publishes(t, says, &paho.Publish{Topic: "$delayed/10/rooms/lamp", QoS: 1, Payload: []byte("on")}); code != 0 {
		t.Fatalf("refused with %#x", code)
	}
	verdict(t, url, "a")
	_ = n[0].Ended(t)
	p := here.Next(t)
	if took := time.Since(began); p.Topic != "rooms/lamp" || took < 10*time.Second {
		t.Errorf("%s came after %v", p.Topic, took)
	}
	for _, topic := range []string{"$delayed/1/rooms/fan", "rooms/last"} { // whatever came twice would come before
		if code := publishes(t, later, &paho.Publish{Topic: topic, QoS: 1, Payload: []byte("on")}); code != 0 {
			t.Fatalf("refused with %#x", code)
		}
		if p := here.Next(t); p.Topic != strings.TrimPrefix(topic, "$delayed/1/") {
			t.Errorf("got %s after %s", p.Topic, topic)
		}
	}
}

// TestAScheduledRolloutBeginsThoughItsBridgeEnded declares the bridge dead at which a
// rollout waits for its time. It begins at another one, not before, and asks each
// lamp once.
func TestAScheduledRolloutBeginsThoughItsBridgeEnded(t *testing.T) {
	t.Parallel()
	url, n := three(t)
	w := newCrew(t, 4, n[1], n[2])
	onA, onC := n[0].Caller(t, "me-a"), n[2].Caller(t, "me-c")
	know(t, onA, 3)
	at := time.Now().Add(10 * time.Second).Truncate(time.Second)
	id := rollsOut(t, onA, fmt.Sprintf(`,"schedule_at":%q`, at.Format(time.RFC3339)))
	verdict(t, url, "a")
	_ = n[0].Ended(t)
	if asked := w.invocations(); asked > 0 && time.Now().Before(at) {
		t.Errorf("%d were asked before its time", asked)
	}
	w.release(true)
	comesSo(t, onC, id, "complete", "succeeded 4")
	if now := time.Now(); now.Before(at) {
		t.Errorf("it has ended %v before it was to begin", at.Sub(now))
	}
	w.attempts(1, 1, 1, 1)
}

// A desk is a webhook that counts what it is told, by event, unless it is away.
type desk struct {
	url  string
	away atomic.Bool
	hit  chan struct{} // told of an attempt while it is away

	mu   sync.Mutex
	told map[string]int
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{told: make(map[string]int), hit: make(chan struct{}, 64)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			d.hit <- struct{}{}
			return
		}
		body, _ := io.ReadAll(r.Body)
		if e, err := protocol.DecodeEvent(body, protocol.Limits{}); err == nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.told[e.ID+" "+e.Name]++
		}
	}))
	t.Cleanup(server.Close)
	d.url = server.URL
	return d
}

// times is the number of times that the desk was told of an event of an approval.
func (d *desk) times(a approval.Approval, name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.told[string(a.ID)+" "+name]
}

// TestAWebhookIsToldOnceWhicheverBridgeDecides asks about a call at a bridge that is
// then declared dead, and decides at another. All of them have the webhook.
func TestAWebhookIsToldOnceWhicheverBridgeDecides(t *testing.T) {
	t.Parallel()
	s := scripted.ForBridge(t, calls("door.open", `{}`), says("It is open."))
	d := newDesk(t)
	hooked := d.hooked(t)
	url, a, b, c := trioWith(t, func(config *app.Config) { withModel(s)(config); hooked(config) })
	door := doorAt(t, c)
	everywhere(t, "door", "online", a.Caller(t, "looks-a"), b.Caller(t, "looks-b"))
	task := opensDoor(t, a.Caller(t, "me", keepsSession), "q")
	boss := b.Caller(t, "boss")
	asked := askedFor(t, boss, task)
	eventually.Holds(t, "the desk is told that somebody is asked", func() bool { return d.times(asked, "approval.requested") > 0 })

	verdict(t, url, "a")
	_ = a.Ended(t)
	decide(t, boss, asked, "approve")
	call := door.Invocation(t)
	door.Reply(t, "door", call, map[string]any{"open": true})
	if got := endedTask(t, c.Caller(t, "on-c"), task); got.State != "succeeded" {
		t.Errorf("the task is %+v", got)
	}
	eventually.Holds(t, "the desk is told of the decision", func() bool { return d.times(asked, "approval.approved") > 0 })
	for _, name := range []string{"approval.requested", "approval.approved"} {
		if n := d.times(asked, name); n != 1 {
			t.Errorf("%s was told %d times: %v", name, n, d.told)
		}
	}
	spared(t, door)
}

// hooked has a bridge tell a desk.
func (d *desk) hooked(t *testing.T) func(*app.Config) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	bridgetest.Write(t, secret, "a secret of a webhook")
	return func(config *app.Config) {
		config.Approvals.AllowPrivate = true
		config.Approvals.Webhooks = []approval.WebhookSettings{{URL: d.url, SecretFile: secret}}
	}
}

// TestWhatAWebhookIsOwedOutlivesItsBridge declares the bridge dead that could not tell
// a webhook: another one tells it, once.
func TestWhatAWebhookIsOwedOutlivesItsBridge(t *testing.T) {
	t.Parallel()
	s := scripted.ForBridge(t, calls("door.open", `{}`), says("It is open."))
	d := newDesk(t)
	hooked := d.hooked(t)
	url, a, b, c := trioWith(t, func(config *app.Config) { withModel(s)(config); hooked(config) })
	d.away.Store(true)
	door := doorAt(t, c)
	everywhere(t, "door", "online", a.Caller(t, "looks-a"), b.Caller(t, "looks-b"))
	task := opensDoor(t, a.Caller(t, "me", keepsSession), "q")
	boss := b.Caller(t, "boss")
	asked := askedFor(t, boss, task)
	<-d.hit

	verdict(t, url, "a")
	_ = a.Ended(t)
	d.away.Store(false)
	eventually.Holds(t, "the desk is told that somebody is asked", func() bool { return d.times(asked, "approval.requested") > 0 })
	decide(t, boss, asked, "deny")
	eventually.Holds(t, "the desk is told of the decision", func() bool { return d.times(asked, "approval.denied") > 0 })
	for _, name := range []string{"approval.requested", "approval.denied"} {
		if n := d.times(asked, name); n != 1 {
			t.Errorf("%s was told %d times: %v", name, n, d.told)
		}
	}
	spared(t, door)
}

// TestWhatAWebhookIsOwedOutlivesARestart stops a bridge that works alone and could not
// tell a webhook.
func TestWhatAWebhookIsOwedOutlivesARestart(t *testing.T) {
	t.Parallel()
	s := scripted.ForBridge(t, calls("door.open", `{}`))
	d := newDesk(t)
	d.away.Store(true)
	n := bridgetest.Start(t, withModel(s), d.hooked(t))
	_ = doorAt(t, n)
	task := opensDoor(t, n.Caller(t, "me", keepsSession), "q")
	asked := askedFor(t, n.Caller(t, "boss"), task)
	<-d.hit
	n.Stop(t)
	d.away.Store(false)
	n.Restart(t)
	eventually.Holds(t, "the desk is told that somebody is asked", func() bool { return d.times(asked, "approval.requested") == 1 })
}

// TestAConversationGoesOnAtAnotherBridge ends one bridge between two questions, and
// the next in the middle of an answer.
func TestAConversationGoesOnAtAnotherBridge(t *testing.T) {
	t.Parallel()
	s := scripted.ForBridge(t, says("It is 15 degrees."), says("As I said, 15."), callsFor("slow_wait", `{}`), says("It is still 15."))
	url, a, b, c := trio(t, s)
	device := c.Device(t, "slow-1", "slow", `["wait"]`)
	everywhere(t, "slow-1", "online", a.Caller(t, "looks-a"), b.Caller(t, "looks-b"))
	ask := func(n *bridgetest.Node, id, text string) string {
		t.Helper()
		got, err, _ := chatted(t, n.Caller(t, "me"), id, fmt.Sprintf(`{"session_id":"evening","message":%q,"tools":["slow.*"]}`, text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return got.Result
	}
	if got := ask(a, "c1", "How warm is it?"); got != "It is 15 degrees." {
		t.Errorf("answered %q", got)
	}
	verdict(t, url, "a")
	_ = a.Ended(t)
	if got := ask(b, "c2", "Sure?"); got != "As I said, 15." {
		t.Errorf("answered %q", got)
	}
	if told := toldAt(t, s, 1); !strings.Contains(told, "user: How warm is it?") || !strings.Contains(told, "It is 15 degrees.") || !strings.HasSuffix(told, "user: Sure?\n") {
		t.Errorf("the model was told\n%s", told)
	}

	b.Caller(t, "me").Send(t, "aibridge/bridge/request", bridgetest.Request("c3", "llm.chat", `{"session_id":"evening","message":"Wait!","tools":["slow.*"]}`))
	call := device.Invocation(t)
	verdict(t, url, "b")
	_ = b.Ended(t)
	if got := ask(c, "c4", "And now?"); got != "It is still 15." {
		t.Errorf("answered %q", got)
	}
	if told := toldAt(t, s, 3); !strings.Contains(told, "user: How warm is it?") || !strings.Contains(told, "As I said, 15.") || !strings.HasSuffix(told, "user: And now?\n") {
		t.Errorf("the model was told\n%s", told)
	}
	device.Reply(t, "slow-1", call, map[string]any{}) // too late for anybody
	spared(t, device)
}
