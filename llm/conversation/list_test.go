package conversation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

func (r *room) list(who *protocol.Principal, p ListParams) []string {
	r.t.Helper()
	got, err := r.List(r.t.Context(), &commands.Call{Principal: who}, p)
	if err != nil {
		r.t.Fatal(err)
	}
	ids := []string{}
	for _, c := range got.Conversations {
		ids = append(ids, c.ID)
	}
	return ids
}

func TestConversationsAreListedAndShownToTheirOwnerAlone(t *testing.T) {
	r := newRoom(t, func(n int, q chat.Request) (string, []string, error) {
		if n == 0 {
			return "I look.", []string{"thermostat.read"}, nil
		}
		return "It is 21.", nil, nil
	})
	for i, message := range []string{"How warm is the Bedroom?", "And the hall?", "Good night"} {
		if _, err := r.say(alice, fmt.Sprintf(`{"session_id":"s%d","message":%q,"tools":["*"],"system":"Be brief."}`, i, message)); err != nil {
			t.Fatal(err)
		}
		r.now = r.now.Add(time.Minute)
	}
	root := &protocol.Principal{Kind: protocol.KindOperator, ID: "root", Roles: []string{protocol.RoleAdministrator}}
	elsewhere := &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: "lab"}
	for name, test := range map[string]struct {
		who  *protocol.Principal
		p    ListParams
		want []string
	}{
		"all":                         {alice, ListParams{}, []string{"s2", "s1", "s0"}},
		"found":                       {alice, ListParams{Find: "bedROOM"}, []string{"s0"}},
		"sorted":                      {alice, ListParams{Sort: "-tokens"}, []string{"s0", "s2", "s1"}},
		"of somebody else":            {bob, ListParams{}, []string{}},
		"of an administrator":         {root, ListParams{}, []string{}},
		"of the same id in the lab":   {elsewhere, ListParams{}, []string{}},
		"none that fits":              {alice, ListParams{Find: "kitchen"}, []string{}},
		"by what the model is called": {alice, ListParams{Find: "large"}, []string{}},
	} {
		if got := r.list(test.who, test.p); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	got, err := r.Get(t.Context(), &commands.Call{Principal: alice}, GetParams{Session: "s0"})
	if err != nil || got.Title != "How warm is the Bedroom?" || got.System != "Be brief." || got.Tokens != 30 || len(got.Messages) != 4 || got.Messages[2].Role != chat.ToolRole {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, who := range map[string]*protocol.Principal{"somebody else": bob, "an administrator": root, "the lab": elsewhere} {
		_, others := r.Get(t.Context(), &commands.Call{Principal: who}, GetParams{Session: "s0"})
		_, none := r.Get(t.Context(), &commands.Call{Principal: who}, GetParams{Session: "s9"})
		if protocol.CodeOf(others) != protocol.NotFound || protocol.CodeOf(none) != protocol.NotFound {
			t.Errorf("%s: %v, %v", name, others, none)
		}
	}
	r.now = r.now.Add(25 * time.Hour)
	if got := r.list(alice, ListParams{}); len(got) != 0 {
		t.Errorf("after a day of quiet there are %q", got)
	}
}
