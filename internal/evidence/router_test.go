package evidence

import (
	"context"
	"fmt"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A node is a router with one command that acts on the world, and counts how
// often it did.
type node struct {
	*commands.Router
	acted int
}

func newNode(t *testing.T, claims commands.Claims) *node {
	t.Helper()
	n := &node{}
	type nothing struct{}
	act := commands.New(commands.Spec{Name: "test.act", Summary: "Acts.", Action: "test:act", Effect: commands.Act},
		func(context.Context, *commands.Call, nothing) (nothing, error) {
			n.acted++
			return nothing{}, nil
		})
	set, err := commands.NewSet(act)
	if err != nil {
		t.Fatal(err)
	}
	n.Router = commands.NewRouter(set, commands.RouterOptions{Authorizer: commands.AllowAll{}, Claims: claims})
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n
}

// act sends a request and returns the code of the answer, "" for success.
func (n *node) act(t *testing.T, id string) protocol.Code {
	t.Helper()
	answer := n.Handle(t.Context(), commands.Inbound{
		Principal: &protocol.Principal{Kind: protocol.KindOperator, ID: "anna", Space: protocol.DefaultSpace},
		Body: fmt.Appendf(nil,
			`{"version":"0.6.3","id":%q,"timestamp":0,"type":"request","command":"test.act","params":{},"metadata":{}}`, id),
	})
	if answer.Err != nil {
		return answer.Err.Code
	}
	return ""
}

func TestACommandThatCannotBeClaimedIsNotDispatched(t *testing.T) {
	disk := newBadDisk()
	n := newNode(t, open(t, t.TempDir(), Options{create: disk.create}))
	disk.writes.Store(true)
	for range 2 {
		if code := n.act(t, "1"); code != protocol.StoreUnavailable {
			t.Errorf("answered %q, want 5001", code)
		}
	}
	if n.acted != 0 {
		t.Error("acted without a claim")
	}
	disk.writes.Store(false)
	if code := n.act(t, "1"); code != "" || n.acted != 1 {
		t.Errorf("answered %q and acted %d times once the disk works", code, n.acted)
	}
}

func TestTheNextRouterDoesNotDispatchWhatWasClaimed(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	if code := newNode(t, l).act(t, "1"); code != "" {
		t.Fatalf("answered %q", code)
	}
	shut(t, l)
	n := newNode(t, open(t, dir, Options{}))
	if code := n.act(t, "1"); code != protocol.OutcomeUnknown || n.acted != 0 {
		t.Errorf("answered %q and acted %d times, want 4012 and none", code, n.acted)
	}
	if code := n.act(t, "2"); code != "" || n.acted != 1 {
		t.Errorf("another request is answered %q", code)
	}
}
