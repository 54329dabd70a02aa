package commands_test

import (
	"context"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A follower is a state that is behind until it catches up.
type follower struct {
	seen, written uint64
	follows       bool // by itself, once something was read
}

func (f *follower) Revision() uint64 { return f.seen }

func (f *follower) CatchUp(context.Context) (bool, error) {
	moved := f.seen < f.written
	f.seen = f.written
	return moved, nil
}

func TestAReadThatFindsNothingLooksAgainOnceMoreIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		state    follower
		metadata string
		command  string
		runs     int
		answer   string
	}{
		"behind until it was read":   {follower{1, 5, true}, `{}`, "test.find", 2, `"found":5`},
		"behind":                     {follower{1, 5, false}, `{}`, "test.find", 2, `"found":5`},
		"not behind":                 {follower{3, 3, false}, `{}`, "test.find", 1, `"3001"`},
		"at the revision":            {follower{5, 5, false}, `{"min_revision":5}`, "test.find", 1, `"found":5`},
		"asks for more than is seen": {follower{1, 5, false}, `{"min_revision":5}`, "test.find", 1, `"found":5`},
		"asks for what never was":    {follower{1, 5, false}, `{"min_revision":6}`, "test.find", 0, `metadata.min_revision`},
		"asks for nonsense":          {follower{1, 5, false}, `{"min_revision":"5"}`, "test.find", 0, `metadata.min_revision`},
		"writes":                     {follower{4, 4, false}, `{}`, "test.put", 1, `"revision":4`},
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			find := commands.New(commands.Spec{Name: "test.find", Summary: "Test.", Effect: commands.Read, Action: "test:find", Example: `{}`},
				func(context.Context, *commands.Call, struct{}) (map[string]uint64, error) {
					if runs++; c.state.seen < 5 {
						if c.state.follows {
							c.state.seen = c.state.written
						}
						return nil, protocol.Errorf(protocol.NotFound, "there is none")
					}
					return map[string]uint64{"found": c.state.seen}, nil
				})
			put := commands.New(commands.Spec{Name: "test.put", Summary: "Test.", Effect: commands.Write, Action: "test:put", Example: `{}`},
				func(context.Context, *commands.Call, struct{}) (struct{}, error) { runs++; return struct{}{}, nil })
			set, err := commands.NewSet(find, put)
			if err != nil {
				t.Fatal(err)
			}
			r := commands.NewRouter(set, commands.RouterOptions{Authorizer: commands.AllowAll{}, State: &c.state})
			t.Cleanup(func() { _ = r.Close(context.Background()) })
			body := `{"version":"0.6.3","id":"1","timestamp":0,"type":"request","command":"` + c.command + `","params":{},"metadata":` + c.metadata + `}`
			answer := r.Handle(t.Context(), commands.Inbound{Principal: &protocol.Principal{Kind: protocol.KindOperator, ID: "anna"}, Body: []byte(body), Door: "http"})
			if text := string(answer.Append(nil)); runs != c.runs || !strings.Contains(text, c.answer) {
				t.Errorf("it ran %d times: %s", runs, text)
			}
		})
	}
}
