package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant/granttest"
)

// A lathe does what its argument says, and counts how often it is tried and left.
type lathe struct {
	mu          sync.Mutex
	tried, left int
	recorded    []string
}

func (l *lathe) record(_ context.Context, _ tools.Environment, r *tools.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recorded = append(l.recorded, fmt.Sprint(r.Name, " ", r.Status, " ", protocol.CodeOf(r.Err), " ", string(r.Arguments), " ", r.Text))
}

// tool is the lathe, whose calls are begun, or are run as those of other tools.
func (l *lathe) tool(begins bool) *tools.Tool {
	t := &tools.Tool{
		Declaration: tools.Declaration{
			Name: "lathe.turn", Effect: commands.Act, Idempotent: true, Timeout: 2 * time.Minute,
			Parameters: []tools.Parameter{{Name: "how", Kind: tools.String, Required: true}},
		},
		Prompt: true,
	}
	t.Begin = func(_ context.Context, x *tools.Execution) (tools.Running, error) {
		l.mu.Lock()
		l.tried++
		again := l.tried > 1
		l.mu.Unlock()
		how, _ := x.Arguments["how"].(string)
		turn := &turning{lathe: l, how: how, done: make(chan struct{}, 1)}
		switch {
		case how == "refuse":
			return nil, protocol.Errorf(protocol.PermissionDenied, "not today")
		case how == "break":
			panic("broken")
		case how == "flaky" && !again:
			turn.err = protocol.Errorf(protocol.Busy, "one moment")
		case how == "fail":
			turn.err = protocol.Errorf(protocol.NotFound, "there is no wood")
		case how == "long", how == "longer":
			wait := 30 * time.Second
			if how == "longer" {
				wait = 80 * time.Second
			}
			turn.late = time.AfterFunc(wait, func() { turn.done <- struct{}{} })
			return turn, nil
		}
		turn.done <- struct{}{}
		return turn, nil
	}
	t.Run = t.Wait
	if !begins {
		t.Begin = nil
		begin := l.tool(true)
		t.Run = begin.Wait
	}
	return t
}

// A turning is one piece of work.
type turning struct {
	lathe *lathe
	how   string
	done  chan struct{}
	late  *time.Timer
	err   error
}

func (w *turning) Done() <-chan struct{} { return w.done }

func (w *turning) Leave(why error) {
	w.late.Stop()
	w.err = why
	w.lathe.mu.Lock()
	w.lathe.left++
	w.lathe.mu.Unlock()
}

func (w *turning) Output() (tools.Output, error) {
	if w.how == "burst" {
		panic("burst")
	}
	return tools.Output{Content: json.RawMessage(`{"turned":true}`)}, w.err
}

// TestCallsThatAreBegunAreAnsweredAsOthers makes the same calls of a tool that begins and
// of one that runs, by clients with and without support of tasks.
func TestCallsThatAreBegunAreAnsweredAsOthers(t *testing.T) {
	plain := strings.Replace(capable(""), `"extensions":{"io.modelcontextprotocol/tasks":{}}`, "", 1)
	for _, how := range []string{"", "fine", "refuse", "break", "flaky", "fail", "burst", "long", "longer", "leave"} {
		for name, client := range map[string]string{"tasks": capable(""), "plain": plain} {
			t.Run(how+" "+name, func(t *testing.T) {
				begun, begunLathe := turned(t, how, client, true)
				run, runLathe := turned(t, how, client, false)
				if begun != run {
					t.Errorf("answered %s\ninstead of %s", begun, run)
				}
				if begunLathe.tried != runLathe.tried || begunLathe.left != runLathe.left {
					t.Errorf("tried %d times and left %d times, instead of %d and %d", begunLathe.tried, begunLathe.left, runLathe.tried, runLathe.left)
				}
				if !slices.Equal(begunLathe.recorded, runLathe.recorded) || len(runLathe.recorded) != 1 {
					t.Errorf("recorded %q\ninstead of %q", begunLathe.recorded, runLathe.recorded)
				}
			})
		}
	}
}

// turned is the answer to a call of a lathe, and the lathe when the call is over.
func turned(t *testing.T, how, client string, begins bool) (answer string, l *lathe) {
	l = new(lathe)
	bubble.Test(t, func(t *testing.T) { answer = l.turned(t, how, client, begins) })
	return answer, l
}

func (l *lathe) turned(t *testing.T, how, client string, begins bool) string {
	book := newLedger()
	w := quiet(t, book, func(o *mcpdoor.Options) {
		o.Executor = &tools.Executor{Record: l.record}
		o.Keeper = shelf{book}
	})
	w.source.add("", l.tool(begins))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	arguments := `{"how":"` + how + `"}`
	switch how {
	case "":
		arguments = `{"wood":1}`
	case "leave":
		arguments = `{"how":"long"}`
		defer time.AfterFunc(time.Second, leave).Stop()
	}
	a := w.asksWithin(ctx, t, "ada", "tools/call", `"name":"lathe.turn","arguments":`+arguments+`,`+client)
	leave() // the request is over, its task goes on
	book.wg.Wait()
	return a.text
}

// The library's context of a call in a session is that of the request which opened it.
func TestACallThatIsBegunInASessionOfTheLibraryEndsWithItsCredential(t *testing.T) {
	book, grants := newLedger(), new(granttest.Authority)
	w := newWorld(t, func(o *mcpdoor.Options) { o.Grants, o.Tasks, o.Keeper, o.Hold = grants, book, shelf{book}, time.Hour })
	begun, left := make(chan struct{}, 1), make(chan struct{}, 1)
	tool := new(lathe).tool(true)
	begin := tool.Begin
	tool.Begin = func(ctx context.Context, x *tools.Execution) (tools.Running, error) {
		running, err := begin(ctx, x)
		begun <- struct{}{}
		return parting{running, left}, err
	}
	w.source.add("", tool)
	c := w.open(t, "ada")
	c.headers["Accept"] = "application/json;q=0.5, text/event-stream" // not the short way
	go func() {
		<-begun
		grants.End("ada", protocol.Errorf(protocol.CredentialInvalid, "it was revoked"))
	}()
	c.send("POST", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"lathe.turn","arguments":{"how":"longer"}}}`)
	select {
	case <-left:
	case <-time.After(bridgetest.Patience):
		t.Error("the call goes on")
	}
}

// A parting is a call that tells that it was left.
type parting struct {
	tools.Running
	left chan<- struct{}
}

func (p parting) Leave(why error) {
	p.Running.Leave(why)
	p.left <- struct{}{}
}
