package commands_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant/granttest"
)

// A workshop is a router with one command whose calls can be prepared, and all
// that calls rest on.
type workshop struct {
	*node
	plans     commands.Plans
	template  *commands.Template // of calls within the bridge, nil for those of a connection
	now       time.Time
	authority granttest.Authority
	epoch     uint64
	forbidden func(*commands.Call) bool
	lasting   time.Duration // of what is allowed
	asked     int           // the authorizer
	limited   bool
	full      bool // the audit trail
	unusual   bool // what was prepared is of no more use
	prepared  int  // calls
	usual     int
}

type tool struct {
	Name   string          `json:"name"`
	Params json.RawMessage `json:"params,omitempty" type:"object" default:"{}"`
}

func (t tool) Target() commands.Resource { return commands.Resource{Type: "tool", ID: t.Name} }

func newWorkshop(t *testing.T, change ...func(*commands.RouterOptions)) *workshop {
	w := &workshop{now: time.Unix(1e9, 0), lasting: time.Minute, forbidden: func(*commands.Call) bool { return false }}
	o := commands.RouterOptions{Authorizer: w, Credentials: &w.authority, Limiter: w, Auditor: auditing{w}, Now: func() time.Time { return w.now }}
	for _, f := range change {
		f(&o)
	}
	spec := commands.Spec{Name: "test.use", Summary: "Test.", Effect: commands.Act, Action: "test:use", Async: true}
	w.node = newNode(t, o, commands.NewPrepared(spec, func(_ context.Context, _ *commands.Call, p tool, done func(tool, error)) {
		w.usual++
		done(p, nil)
	}, func(p tool) (commands.Prepared, bool) { return used{w, p}, true }))
	return w
}

// used is a tool whose use was prepared.
type used struct {
	w *workshop
	tool
}

func (u used) Begin(_ context.Context, _ *commands.Call, params json.RawMessage, done func(json.RawMessage, error)) bool {
	if u.w.unusual {
		return false
	}
	u.w.prepared++
	done(fmt.Appendf(nil, `{"name":%q,"params":%s}`, u.Name, params), nil)
	return true
}

func (w *workshop) Authorize(context.Context, *protocol.Principal, string, commands.Resource) error {
	return nil
}
func (w *workshop) ActFor(context.Context, *protocol.Principal, string) error {
	return protocol.Errorf(protocol.PermissionDenied, "no")
}
func (w *workshop) AuthorizeCall(c *commands.Call, action string, on commands.Resource) error {
	_, err := w.AuthorizeUntil(c, action, on)
	return err
}
func (w *workshop) Epoch() uint64 { return w.epoch }
func (w *workshop) AuthorizeUntil(c *commands.Call, _ string, on commands.Resource) (time.Time, error) {
	if w.asked++; w.forbidden(c) || on.ID != "saw" {
		return time.Time{}, protocol.Errorf(protocol.PermissionDenied, "no")
	}
	if w.lasting == 0 {
		return time.Time{}, nil
	}
	return w.now.Add(w.lasting), nil
}

func (w *workshop) Admit(*protocol.Principal, int) *protocol.Error {
	if w.limited {
		return protocol.Errorf(protocol.RateLimited, "too many")
	}
	return nil
}

// auditing is the workshop as an auditor.
type auditing struct{ *workshop }

func (a auditing) Wants(commands.Effect, protocol.Code) bool { return true }
func (a auditing) Audit(commands.Audited)                    {}
func (a auditing) Admit() error {
	if a.full {
		return protocol.Errorf(protocol.StoreUnavailable, "full")
	}
	return nil
}

// use has the saw used, in the same form every time.
func (w *workshop) use(id, params string, metadata ...string) *protocol.Response {
	in := w.inbound(envelope(id, "test.use", fmt.Sprintf(`{"name":"saw","params":%s}`, params), metadata...))
	in.Plans = &w.plans
	if t := w.template; t != nil {
		in.Body, in.Plans, in.Template = nil, nil, t
		in.Request = &protocol.Request{ID: id, Command: t.Command(), Params: t.With([]byte(params))}
	}
	return w.Handle(context.Background(), in)
}

// sawTemplate is a template for the use of the saw.
func sawTemplate() *commands.Template {
	return commands.NewTemplate("test.use", `{"name":"saw","params":`, `}`)
}

// TestEveryPreparedCallIsJudged changes what calls rest on between calls that are
// prepared. Each change counts from the next call on.
func TestEveryPreparedCallIsJudged(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*workshop)
		want   string
	}{
		"nothing":                  {func(*workshop) {}, `{"name":"saw","params":{"n":3}}`},
		"the credential has ended": {func(w *workshop) { w.authority.End("alice", wentBad()) }, "2002"},
		"too many calls":           {func(w *workshop) { w.limited = true }, "4009"},
		"the policy":               {func(w *workshop) { w.forbidden = func(*commands.Call) bool { return true }; w.epoch++ }, "2003"},
		"the permission's time is over": {func(w *workshop) {
			w.forbidden = func(*commands.Call) bool { return true }
			w.now = w.now.Add(w.lasting)
		}, "2003"},
		"the principal": {func(w *workshop) {
			other := *w.who
			w.who = &other
			w.forbidden = func(c *commands.Call) bool { return c.Principal == &other }
		}, "2003"},
		"nobody any more":               {func(w *workshop) { w.who = nil }, "2001"},
		"the trail is full":             {func(w *workshop) { w.full = true }, "5001"},
		"what was prepared":             {func(w *workshop) { w.unusual = true }, `{"name":"saw","params":{"n":3}}`},
		"the bridge is shutting down":   {func(w *workshop) { _ = w.Close(context.Background()) }, "5002"},
		"the id was used, for the same": {func(w *workshop) { w.node.call("3", "test.use", `{"name":"saw","params":{"n":3}}`) }, `{"name":"saw","params":{"n":3}}`},
		"the id was used, for another":  {func(w *workshop) { w.node.call("3", "test.use", `{"name":"saw","params":{}}`) }, "1005"},
	} {
		for way, template := range map[string]*commands.Template{"by its form": nil, "by a template": sawTemplate()} {
			t.Run(name+" "+way, func(t *testing.T) {
				w := newWorkshop(t)
				w.template = template
				w.use("1", `{"n":1}`)
				wantSaid(t, w.use("2", `{"n":2}`), `{"name":"saw","params":{"n":2}}`)
				if w.usual != 1 || w.prepared != 1 {
					t.Fatalf("%d calls went the usual way, %d were prepared", w.usual, w.prepared)
				}
				test.change(w)
				wantSaid(t, w.use("3", `{"n":3}`), test.want)
			})
		}
	}
}

// TestAPermissionIsAskedForOnce, as long as it lasts.
func TestAPermissionIsAskedForOnce(t *testing.T) {
	w := newWorkshop(t)
	for i := range 10 {
		w.use(fmt.Sprint(i), `{}`)
	}
	if w.asked != 2 || w.prepared != 9 { // by the first call, and by the first that was prepared
		t.Errorf("asked %d times, %d prepared", w.asked, w.prepared)
	}
	w.lasting, w.epoch = 0, 1
	for i := range 5 {
		w.use(fmt.Sprint("again ", i), `{}`)
	}
	if w.asked != 7 {
		t.Errorf("asked %d times about what does not last", w.asked)
	}
}

// TestTheUnusualIsNotPrepared has calls whose form or whose router is of a kind
// that goes the usual way.
func TestTheUnusualIsNotPrepared(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(*commands.RouterOptions)
		metadata string
	}{
		"for another sender":      {nil, `"sender_id":"bob"`},
		"with a parser":           {func(o *commands.RouterOptions) { o.Extensions.Parsers = []commands.Parser{blind{}} }, ``},
		"with an error handler":   {func(o *commands.RouterOptions) { o.Extensions.ErrorHandler = blind{} }, ``},
		"with a permission":       {func(o *commands.RouterOptions) { o.Extensions.Permissions = []commands.PermissionCheck{blind{}} }, ``},
		"with a processor":        {func(o *commands.RouterOptions) { o.Extensions.Processors = []commands.MessageProcessor{blind{}} }, ``},
		"without an epoch":        {func(o *commands.RouterOptions) { o.Authorizer = commands.AllowAll{} }, ``},
		"with too deep a nesting": {func(o *commands.RouterOptions) { o.Limits.MaxDepth = 2 }, ``},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkshop(t, func(o *commands.RouterOptions) {
				if test.change != nil {
					test.change(o)
				}
			})
			for i := range 5 {
				w.use(fmt.Sprint(i), `{}`, test.metadata)
			}
			if w.prepared > 0 {
				t.Errorf("%d calls were prepared", w.prepared)
			}
		})
	}
}

// TestFormsThatDoNotComeAgainAreNotLearntForEver has a caller who sends another form
// every time.
func TestFormsThatDoNotComeAgainAreNotLearntForEver(t *testing.T) {
	w := newWorkshop(t)
	for i := range 100 {
		w.use(fmt.Sprint(i), `{}`, strings.Repeat(" ", i))
	}
	wantSaid(t, w.use("a", `{}`), `{"name":"saw","params":{}}`)
	wantSaid(t, w.use("b", `{}`), `{"name":"saw","params":{}}`)
	if w.prepared > 0 {
		t.Errorf("%d calls were prepared", w.prepared)
	}
}

// blind is an extension of every kind that does nothing.
type blind struct{}

func (blind) Parse([]byte, string) (*protocol.Request, error)                        { return nil, nil }
func (blind) Check(context.Context, *commands.Call, string, commands.Resource) error { return nil }
func (blind) HandleError(context.Context, *commands.Call, *protocol.Error) *protocol.Error {
	return nil
}
func (blind) Process(ctx context.Context, _ *commands.Call, _ json.RawMessage, next commands.Next) (json.RawMessage, error) {
	return next(ctx)
}
