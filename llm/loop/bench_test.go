package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/tools"
)

// A quick model calls two tools in every answer and takes no time for it.
type quick struct{ answers []*model.Reply }

func newQuick(rounds int) *quick {
	q := &quick{}
	for n := range rounds {
		a := &chat.Answer{Finish: chat.Finish{Reason: chat.ToolUse, Usage: chat.Usage{Input: 10, Output: 5}}}
		for i := range 2 {
			a.Segments = append(a.Segments, chat.Segment{Type: chat.Call, ToolCall: &chat.ToolCall{
				ID: fmt.Sprint("c", n, i), Name: "thing7.work", Args: json.RawMessage(`{"room":"hall","celsius":"21.5","on":1}`),
			}})
		}
		q.answers = append(q.answers, &model.Reply{Answer: a, Usage: a.Finish.Usage})
	}
	last := &chat.Answer{Segments: []chat.Segment{{Type: chat.Text, Text: "Done."}}, Finish: chat.Finish{Reason: chat.EndTurn}}
	q.answers = append(q.answers, &model.Reply{Answer: last})
	return q
}

func (q *quick) Ask(_ context.Context, question model.Question, _ func(chat.Event) error) (*model.Reply, error) {
	said := 0
	for _, m := range question.Request.Messages {
		if m.Role == chat.Assistant {
			said++
		}
	}
	return q.answers[min(said, len(q.answers)-1)], nil
}

// BenchmarkRound is what the loop adds to one round of two calls: everything
// but the model and what the tools do. 64 tools are offered.
func BenchmarkRound(b *testing.B) {
	const rounds = 10
	var list []*tools.Tool
	for i := range 64 {
		t := declared(fmt.Sprintf("thing%d.work", i), `{"type":"object","properties":{"room":{"type":"string"},"celsius":{"type":"number"},"on":{"type":"boolean"}},"required":["room"]}`)
		t.Run = fine.Run
		list = append(list, t)
	}
	r := New(Options{Model: newQuick(rounds), Tools: tools.New(given(list)), Executor: &tools.Executor{}})
	b.ReportAllocs()
	for b.Loop() {
		turn, err := r.Converse(b.Context(), asking(nil), nil)
		if err != nil || turn.Tools.Success != 2*rounds {
			b.Fatalf("%+v, %v", turn.Tools, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*(rounds+1)), "µs/round")
}
