package approval

import (
	"context"
	"testing"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

func TestNobodyIsAskedTwiceAboutTheSameEffect(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	unlock := func(who *protocol.Principal, effect string) *tools.Execution {
		x := heat(who)
		x.Effect = effect
		return x
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := d.gate(ctx, oven, unlock(alice, "door-1"))
	a := d.asked(t)
	for who, knows := range map[*protocol.Principal]bool{alice: true, bot: false} {
		err := d.Gate(ctx, oven, unlock(who, "door-1"))
		if reason(err) != "same_effect" || protocol.CodeOf(err) != protocol.InvalidState {
			t.Errorf("%s: %v", who.ID, err)
		}
		if _, told := protocol.AsError(err).Details["approval_id"]; told != knows {
			t.Errorf("%s is told of the other call: %v", who.ID, told)
		}
	}
	other := d.gate(ctx, oven, unlock(bot, "door-2"))
	if b := d.asked(t); b.ID == a.ID {
		t.Error("another effect is not asked about")
	} else if err := d.decide(bob, b, "deny", "no"); err != nil {
		t.Fatal(err)
	}
	<-other
	if err := d.decide(bob, a, "deny", "no"); err != nil {
		t.Fatal(err)
	}
	<-first
	later := unlock(bot, "door-1")
	later.TraceID = "t-2" // in this one the same call was denied
	again := d.gate(ctx, oven, later)
	if c := d.asked(t); c.Requester != "bot" {
		t.Errorf("asked about the call of %s", c.Requester)
	}
	cancel()
	<-again
}
