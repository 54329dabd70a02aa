package commands_test

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

// A witness is an auditor that remembers what it was told.
type witness struct {
	reads bool
	full  error

	mu   sync.Mutex
	seen []commands.Audited
}

func (w *witness) Wants(effect commands.Effect, code protocol.Code) bool {
	return w.reads || effect != commands.Read || code != "" && code[0] == '2'
}

func (w *witness) Admit() error { return w.full }

func (w *witness) Audit(a commands.Audited) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.Params = slices.Clone(a.Params)
	w.seen = append(w.seen, a)
}

// told is the part that was seen so far, in short.
func (w *witness) told() (said []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.seen {
		s := a.Command
		if a.Err != nil {
			s += " " + string(a.Err.Code)
		}
		if a.Executed {
			s += " executed"
		}
		if a.Late {
			s += " late"
		}
		said = append(said, s)
	}
	return said
}

func wantTold(t *testing.T, w *witness, want ...string) {
	t.Helper()
	if got := w.told(); !slices.Equal(got, want) {
		t.Errorf("audited %q, want %q", got, want)
	}
}

func echo(_ context.Context, _ *commands.Call, text string) (string, error) { return text, nil }

func TestChangesAreAuditedOnceAndReadsAreNot(t *testing.T) {
	w := &witness{}
	n := newNode(t, commands.RouterOptions{Auditor: w}, define("read", commands.Read, echo), define("write", commands.Write, echo))
	n.call("1", "test.read", `{}`)
	n.call("2", "test.write", `{"text":"a"}`)
	n.call("2", "test.write", `{"text":"a"}`) // a repeat gets the answer again
	n.call("3", "test.write", `{"wrong":1}`)
	n.call("4", "test.nothing", `{}`)
	wantTold(t, w, "test.write executed", "test.write 1001")
}

func TestRoutineIsAuditedLikeReading(t *testing.T) {
	routine := commands.New(commands.Spec{Name: "test.beat", Summary: "Test.", Effect: commands.Write, Action: "test:beat", Routine: true},
		func(context.Context, *commands.Call, text) (text, error) { return text{}, nil })
	for reads, want := range map[bool][]string{false: {"test.write executed"}, true: {"test.beat executed", "test.write executed"}} {
		w := &witness{reads: reads}
		n := newNode(t, commands.RouterOptions{Auditor: w}, routine, define("write", commands.Write, echo))
		n.call("1", "test.beat", `{}`)
		n.call("2", "test.write", `{}`)
		wantTold(t, w, want...)
	}
}

func TestAnAuditedCallSaysWhoWhatAndFromWhere(t *testing.T) {
	w := &witness{}
	type params struct {
		Skill  protocol.SkillID `json:"skill_id" doc:"x"`
		Secret string           `json:"secret" doc:"x"`
		Shown  int              `json:"shown" doc:"x" audit:"yes"`
		Hidden protocol.AgentID `json:"hidden" doc:"x" audit:"no"`
	}
	cmd := commands.New(commands.Spec{Name: "test.do", Summary: "Test.", Effect: commands.Act, Action: "test:do"},
		func(context.Context, *commands.Call, params) (text, error) { return text{}, nil })
	n := newNode(t, commands.RouterOptions{Auditor: w}, cmd)
	in := n.inbound(envelope("7", "test.do", `{"skill_id":"s","secret":"x","shown":1,"hidden":"h"}`, `"trace_id":"t"`))
	in.Address = netip.MustParseAddr("192.0.2.7")
	if resp := n.Handle(t.Context(), in); resp.Err != nil {
		t.Fatal(resp.Err)
	}
	a := w.seen[0]
	if a.Principal != n.who || a.SenderID != "alice" || a.RequestID != "7" || a.TraceID != "t" || a.Door != "test" ||
		a.Address != in.Address || a.Action != "test:do" || a.Effect != commands.Act || a.At.IsZero() {
		t.Errorf("audited %+v", a)
	}
	if want := []string{"skill_id", "shown"}; !slices.Equal(a.Loggable, want) {
		t.Errorf("loggable %q, want %q", a.Loggable, want)
	}
}

func TestRefusedReadsAreAudited(t *testing.T) {
	w := &witness{}
	n := newNode(t, commands.RouterOptions{Auditor: w, Authorizer: refuseAll{}}, define("read", commands.Read, echo))
	wantSaid(t, n.call("1", "test.read", `{}`), "2003")
	wantTold(t, w, "test.read 2003")
}

type refuseAll struct{ commands.AllowAll }

func (refuseAll) Authorize(context.Context, *protocol.Principal, string, commands.Resource) error {
	return protocol.Errorf(protocol.PermissionDenied, "no")
}

func TestWhatCannotBeRecordedIsNotRun(t *testing.T) {
	w := &witness{full: protocol.Errorf(protocol.StoreUnavailable, "full")}
	ran := false
	n := newNode(t, commands.RouterOptions{Auditor: w}, define("read", commands.Read, echo),
		define("write", commands.Write, func(context.Context, *commands.Call, string) (string, error) { ran = true; return "", nil }))
	wantSaid(t, n.call("1", "test.write", `{}`), "5001")
	wantSaid(t, n.call("2", "test.read", `{}`), `{}`)
	if ran {
		t.Error("the command was run")
	}
	wantTold(t, w, "test.write 5001")
}

func TestAHandlerThatEndsAfterItsTimeIsAuditedTwice(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := &witness{}
		n := newNode(t, commands.RouterOptions{Auditor: w}, define("write", commands.Write,
			func(context.Context, *commands.Call, string) (string, error) { time.Sleep(time.Minute); return "", nil }))
		wantSaid(t, n.call("1", "test.write", `{}`), "4007")
		wantTold(t, w, "test.write 4007 executed")
		time.Sleep(time.Hour)
		wantTold(t, w, "test.write 4007 executed", "test.write executed late")
	})
}
