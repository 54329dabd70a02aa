package bridge

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// everybody may do everything.
type everybody struct{}

func (everybody) Authorize(context.Context, *protocol.Principal, string, commands.Resource) error {
	return nil
}
func (everybody) ActFor(context.Context, *protocol.Principal, string) error { return nil }

// heard is the last outcome that was told to be recorded.
type heard struct{ last commands.Audited }

func (*heard) Wants(commands.Effect, protocol.Code) bool { return true }
func (*heard) Admit() error                              { return nil }
func (h *heard) Audit(a commands.Audited)                { h.last = a }

// TestACommandIsWrittenWithTheCallThatItIsFor has the entry of the command wait for that
// of the call of the tool, if there will be one, and for nothing else.
func TestACommandIsWrittenWithTheCallThatItIsFor(t *testing.T) {
	type nothing struct{}
	spec := commands.Spec{Name: "test.do", Summary: "Do.", Effect: commands.Act, Action: "test:do"}
	set, err := commands.NewSet(commands.New(spec, func(context.Context, *commands.Call, nothing) (nothing, error) { return nothing{}, nil }))
	if err != nil {
		t.Fatal(err)
	}
	said := &heard{}
	router := commands.NewRouter(set, commands.RouterOptions{Authorizer: everybody{}, Auditor: said})
	t.Cleanup(func() { _ = router.Close(context.WithoutCancel(t.Context())) })
	invoke := Invoker{Router: func() *commands.Router { return router }}.Invoke
	for _, recorded := range []bool{false, true} {
		env := ada
		env.Recorded = recorded
		if _, err := invoke(t.Context(), env, "test.do", json.RawMessage(`{}`)); err != nil {
			t.Fatal(err)
		}
		if said.last.Command != "test.do" || said.last.Held != recorded {
			t.Errorf("recorded %v: the trail is told %+v", recorded, said.last)
		}
	}
}
