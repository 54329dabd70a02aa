package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

var (
	topics = protocol.NewTopics("")
	alice  = &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: "home", Roles: []string{protocol.RoleOperator}}
	eve    = &protocol.Principal{Kind: protocol.KindOperator, ID: "eve", Space: "lab", Roles: []string{protocol.RoleOperator}}
	root   = &protocol.Principal{Kind: protocol.KindOperator, ID: "root", Space: "default", Roles: []string{protocol.RoleAdministrator}}
)

// A listener follows the feed by a router of its own.
type listener struct {
	mu     sync.Mutex
	heard  []string
	missed int
	cursor string
	answer *protocol.Response
}

func (l *listener) event(e *protocol.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var batch FollowResult
	if json.Unmarshal(e.Data, &batch) != nil {
		l.heard = append(l.heard, "?")
	}
	l.cursor = batch.Cursor
	if batch.Missed {
		l.missed++
	}
	for _, h := range batch.Events {
		var what struct {
			Event string `json:"event"`
		}
		_ = json.Unmarshal(h.Event, &what)
		l.heard = append(l.heard, h.Family+":"+what.Event)
	}
}

func (l *listener) got() (heard string, missed int, cursor string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprint(l.heard), l.missed, l.cursor
}

type bench struct {
	*Feed
	router *commands.Router
	stop   context.CancelFunc
	n      int
}

func newBench(t *testing.T, o Options) *bench {
	t.Helper()
	o.Topics = topics
	if o.MayHear == nil {
		o.MayHear = func(*protocol.Principal, string) bool { return true }
	}
	b := &bench{Feed: New(o)}
	set, err := commands.NewSet(b.Commands()...)
	if err != nil {
		t.Fatal(err)
	}
	b.router = commands.NewRouter(set, commands.RouterOptions{Authorizer: commands.AllowAll{}})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _ = b.Run(ctx) }()
	b.stop = func() {
		cancel()
		_ = b.router.Close(context.Background())
	}
	return b
}

func (b *bench) follow(who *protocol.Principal, params string) *listener {
	b.n++
	l := &listener{}
	body := fmt.Appendf(nil, `{"version":"0.6.3","id":"f-%d","timestamp":0,"type":"request","command":"event.follow","params":%s,"metadata":{"timeout":600000}}`, b.n, params)
	b.router.Submit(commands.Inbound{Principal: who, Body: body, Door: "ws", Emit: l.event}, func(r *protocol.Response) {
		l.mu.Lock()
		defer l.mu.Unlock()
		answer := *r
		answer.Result = append(json.RawMessage(nil), r.Result...)
		l.answer = &answer
	})
	return l
}

func (b *bench) publish(to protocol.Recipients, topic, name string) {
	b.Published(to, protocol.Message{Topic: topic, Payload: []byte(`{"event":"` + name + `"}`)})
}

func TestAFollowerHearsWhatIsForIt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBench(t, Options{MayHear: func(who *protocol.Principal, topic string) bool {
			return topic != topics.Event("security") || who.Unbounded()
		}})
		defer b.stop()
		hers, others, all := b.follow(alice, `{"stream":true}`), b.follow(eve, `{"stream":true}`), b.follow(root, `{"stream":true,"families":["agent","security"]}`)
		time.Sleep(time.Second)
		b.publish(protocol.Everybody("home"), topics.Event("agent"), "agent.online")
		b.publish(protocol.Everybody("lab"), topics.TaskEvent("t1"), "task.progress")
		b.publish(protocol.Everybody("home"), topics.Event("security"), "login.failed")
		b.publish(protocol.Only(alice.Party()), topics.CapEvent("climate"), "cap.member.added")
		b.publish(protocol.Everybody("home"), topics.AgentRequest("lamp"), "no event")
		b.publish(protocol.Everybody("home"), "elsewhere/event/agent", "no event")
		time.Sleep(time.Second)
		for name, tt := range map[string]struct {
			*listener
			want string
		}{
			"alice": {hers, "[agent:agent.online cap:cap.member.added]"},
			"eve":   {others, "[task:task.progress]"},
			"root":  {all, "[agent:agent.online security:login.failed]"},
		} {
			if got, missed, _ := tt.got(); got != tt.want || missed != 0 {
				t.Errorf("%s hears %s, %d times missed, want %s", name, got, missed, tt.want)
			}
		}
	})
}

func TestAStreamGoesOnWhereItEnded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBench(t, Options{Most: 4})
		defer b.stop()
		first := b.follow(alice, `{"stream":true}`)
		time.Sleep(time.Second)
		b.publish(protocol.Everybody("home"), topics.Event("agent"), "one")
		time.Sleep(time.Second)
		_, _, cursor := first.got()
		b.publish(protocol.Everybody("home"), topics.Event("agent"), "two")
		b.publish(protocol.Everybody("home"), topics.Event("agent"), "three")
		again := b.follow(alice, fmt.Sprintf(`{"stream":true,"after":%q}`, cursor))
		time.Sleep(time.Second)
		if got, missed, _ := again.got(); got != "[agent:two agent:three]" || missed != 0 {
			t.Errorf("after %s: %s, %d times missed", cursor, got, missed)
		}
		for range 6 {
			b.publish(protocol.Everybody("home"), topics.Event("agent"), "more")
		}
		time.Sleep(time.Second)
		late, foreign := b.follow(alice, fmt.Sprintf(`{"stream":true,"after":%q}`, cursor)), b.follow(alice, `{"stream":true,"after":"another-1"}`)
		time.Sleep(time.Second)
		if _, missed, _ := late.got(); missed != 1 {
			t.Errorf("who was away for too long is told %d times that it missed something", missed)
		}
		if _, missed, _ := foreign.got(); missed != 1 {
			t.Errorf("who comes from another process is told %d times that it missed something", missed)
		}
	})
}

func TestFollowingEndsBeforeItsTimeIsOver(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		defer b.stop()
		l := b.follow(alice, `{"stream":true}`)
		time.Sleep(10 * time.Minute)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.answer == nil || l.answer.Err != nil {
			t.Fatalf("the answer is %+v", l.answer)
		}
		var result FollowResult
		if err := json.Unmarshal(l.answer.Result, &result); err != nil || result.Cursor == "" {
			t.Errorf("the result is %s", l.answer.Result)
		}
	})
}

func TestWithoutAStreamTheFirstEventsAreTheAnswer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		defer b.stop()
		l := b.follow(alice, `{}`)
		time.Sleep(time.Second)
		b.publish(protocol.Everybody("home"), topics.Event("agent"), "agent.online")
		time.Sleep(time.Second)
		l.mu.Lock()
		defer l.mu.Unlock()
		var result FollowResult
		if l.answer == nil || json.Unmarshal(l.answer.Result, &result) != nil || len(result.Events) != 1 {
			t.Errorf("the answer is %+v", l.answer)
		}
	})
}

func TestFollowingEndsWithTheCredential(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var gone error
		b := newBench(t, Options{Check: func(*protocol.Principal) error {
			mu.Lock()
			defer mu.Unlock()
			return gone
		}})
		defer b.stop()
		l := b.follow(alice, `{"stream":true}`)
		time.Sleep(time.Second)
		mu.Lock()
		gone = protocol.Errorf(protocol.CredentialInvalid, "revoked")
		mu.Unlock()
		b.publish(protocol.Everybody("home"), topics.Event("agent"), "agent.online")
		time.Sleep(time.Second)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.answer == nil || l.answer.Err == nil || l.answer.Err.Code != protocol.CredentialInvalid || len(l.heard) != 0 {
			t.Errorf("heard %v, answered %+v", l.heard, l.answer)
		}
	})
}
