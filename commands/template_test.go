package commands_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func TestATemplateIsPreparedOnceForAllItsCallers(t *testing.T) {
	w := newWorkshop(t)
	w.template = sawTemplate()
	bob := *w.who
	bob.ID, bob.Credential = "bob", "bob"
	alice := w.who
	for i := range 6 {
		w.who = alice
		if i%2 == 1 {
			w.who = &bob
		}
		wantSaid(t, w.use("1", fmt.Sprintf(`{"n":%d}`, i%2)), fmt.Sprintf(`{"name":"saw","params":{"n":%d}}`, i%2)) // an id of each
	}
	if w.usual != 1 || w.prepared != 1 {
		t.Errorf("%d calls went the usual way, %d were prepared", w.usual, w.prepared)
	}
}

// TestATemplateHasMembersOnBothSides puts a member behind the one that differs.
func TestATemplateHasMembersOnBothSides(t *testing.T) {
	w := newWorkshop(t)
	w.template = commands.NewTemplate("test.use", `{"params":`, `,"name":"saw"}`)
	for i := range 3 {
		wantSaid(t, w.use(fmt.Sprint(i), `{"n":[]}`), `{"name":"saw","params":{"n":[]}}`)
	}
	if w.usual != 1 || w.prepared != 2 {
		t.Errorf("%d calls went the usual way, %d were prepared", w.usual, w.prepared)
	}
}

// TestATemplateOfTheUnusualIsNotPrepared has calls whose params, or whose router, are of
// a kind that goes the usual way.
func TestATemplateOfTheUnusualIsNotPrepared(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(*commands.RouterOptions)
		template *commands.Template
		want     string
	}{
		"with a parser":     {func(o *commands.RouterOptions) { o.Extensions.Parsers = []commands.Parser{blind{}} }, sawTemplate(), `{"name":"saw","params":{}}`},
		"without an epoch":  {func(o *commands.RouterOptions) { o.Authorizer = commands.AllowAll{} }, sawTemplate(), `{"name":"saw","params":{}}`},
		"an unknown member": {nil, commands.NewTemplate("test.use", `{"nam":"saw","params":`, `}`), "1001"},
		"no such command":   {nil, commands.NewTemplate("test.misuse", `{"name":"saw","params":`, `}`), "1002"},
		"no JSON":           {nil, commands.NewTemplate("test.use", `{"name":"saw","params":`, `]`), "1000"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkshop(t, func(o *commands.RouterOptions) {
				if test.change != nil {
					test.change(o)
				}
			})
			w.template = test.template
			for i := range 3 {
				wantSaid(t, w.use(fmt.Sprint(i), `{}`), test.want)
			}
			if w.prepared > 0 {
				t.Errorf("%d calls were prepared", w.prepared)
			}
		})
	}
}

// TestACallOfATemplateIsUsedAgain once its caller has the answer.
func TestACallOfATemplateIsUsedAgain(t *testing.T) {
	l := newLending(t)
	template := commands.NewTemplate("test.lend", `{"name":"saw","params":`, `}`)
	lend := func(id string) (answer chan *protocol.Response) {
		in := l.inbound(nil)
		in.Template, in.Free = template, func() { l.freed.Add(1) }
		in.Request = &protocol.Request{ID: id, Command: template.Command(), Params: template.With([]byte(`{"n":1}`))}
		answer = make(chan *protocol.Response, 1)
		go l.AwaitWithin(context.Background(), in, func(r *protocol.Response) { answer <- lasting(r) })
		return answer
	}
	wantSaid(t, <-lend("learnt"), `{"name":"saw","params":{"n":1}}`)
	answer := lend("1")
	(<-l.begun).end()
	wantSaid(t, <-answer, `{"id":"1","params":{"n":1}}`)
	eventually.Holds(t, "the call is used again", func() bool { return l.freed.Load() == 1 })
}

// TestATemplateServesManyAtOnce has callers of two principals use it side by side.
func TestATemplateServesManyAtOnce(t *testing.T) {
	n := newNode(t, commands.RouterOptions{Authorizer: allowing{}}, commands.NewPrepared(
		commands.Spec{Name: "test.use", Summary: "Test.", Effect: commands.Act, Action: "test:use", Async: true},
		func(_ context.Context, _ *commands.Call, p tool, done func(tool, error)) { done(p, nil) },
		func(p tool) (commands.Prepared, bool) { return echoed{p}, true }))
	template := sawTemplate()
	var callers sync.WaitGroup
	for i := range 8 {
		who := *n.who
		who.ID = fmt.Sprint(i % 2)
		callers.Go(func() {
			for k := range 50 {
				in := n.inbound(nil)
				in.Principal, in.Template = &who, template
				member := fmt.Sprintf(`{"n":%d}`, k)
				in.Request = &protocol.Request{ID: fmt.Sprint(i, " ", k), Command: template.Command(), Params: template.With([]byte(member))}
				n.AwaitWithin(context.Background(), in, func(r *protocol.Response) { wantSaid(t, r, `{"name":"saw","params":`+member+`}`) })
			}
		})
	}
	callers.Wait()
}

// echoed is a tool whose use is told at once.
type echoed struct{ tool }

func (e echoed) Begin(_ context.Context, _ *commands.Call, params json.RawMessage, done func(json.RawMessage, error)) bool {
	done(fmt.Appendf(nil, `{"name":%q,"params":%s}`, e.Name, params), nil)
	return true
}
