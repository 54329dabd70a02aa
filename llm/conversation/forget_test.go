package conversation

import (
	"context"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/loop"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// unsealed seals nothing.
type unsealed struct{}

func (unsealed) Seal(plain []byte, _ string) ([]byte, error)  { return plain, nil }
func (unsealed) Open(sealed []byte, _ string) ([]byte, error) { return sealed, nil }

// Who has a conversation forgotten does not want what still waits in it.
func TestAForgottenConversationTakesWhatWaitsWithIt(t *testing.T) {
	for _, order := range []string{"/reset", "/quit"} {
		desk := approval.New(approval.Options{Approvals: recordstest.New[approval.Record]()})
		waiting := parked.New(parked.Options{Tasks: recordstest.New[parked.Record](), Approvals: desk, Grants: grant.Unlimited{}, Sealer: unsealed{}})
		heats := func(int, chat.Request) (string, []string, error) { return "", []string{"oven.heat"}, nil }
		r := newRoom(t, heats, func(o *Options) {
			o.Parked = waiting
			o.Talker = loop.New(loop.Options{Model: &scripted{t: t, answer: heats}, Tools: o.Tools, Executor: &tools.Executor{Gate: desk.Gate}})
		})
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- waiting.Run(ctx) }()
		ask := func(who *protocol.Principal, session string) protocol.TaskID {
			t.Helper()
			got, err := r.say(who, `{"session_id":"`+session+`","message":"Heat!","tools":["oven.*"],"approval_wait_ms":0}`)
			if err != nil || got.Waiting == nil {
				t.Fatalf("got %+v, %v", got, err)
			}
			return got.Waiting.Task
		}
		mine, other, bobs := ask(alice, "s"), ask(alice, "other"), ask(bob, "s")
		if _, err := r.say(alice, `{"session_id":"s","message":"`+order+`","literal":false}`); err != nil {
			t.Fatal(err)
		}
		eventually.Holds(t, "the task is cancelled", func() bool {
			v, _ := waiting.Get(mine)
			return v.State == parked.Cancelled
		})
		for _, id := range []protocol.TaskID{other, bobs} {
			if v, _ := waiting.Get(id); v.State != parked.Waiting {
				t.Errorf("after %s another task is %s", order, v.State)
			}
		}
		stop()
		<-ended
		_ = waiting.Close(context.Background())
	}
}
