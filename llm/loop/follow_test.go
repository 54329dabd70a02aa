package loop

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/tools"
)

func TestWhatCallsSayMeanwhileIsTold(t *testing.T) {
	var told []string
	busy := tool("busy", func(ctx context.Context, _ *tools.Execution) (tools.Output, error) {
		tools.TellProgress(ctx, tools.Progress{Percent: 25, Message: "a quarter"})
		tools.TellLog(ctx, tools.Log{Level: "warning", Text: "hot"})
		return tools.Output{Text: "ok"}, nil
	})
	box, err := tools.New(given{busy}).Select(t.Context(), tools.Environment{}, []string{"*"})
	if err != nil {
		t.Fatal(err)
	}
	tell := follower(func(event string, data any) { told = append(told, fmt.Sprintf("%s %+v", event, data)) })
	new(tools.Executor).Execute(tools.WithFollower(t.Context(), tell), box, tools.Environment{}, []*chat.ToolCall{{ID: "c1", Name: "busy"}})
	want := []string{"llm.tool_progress {CallID:c1 Percent:25 Message:a quarter}", "llm.tool_log {CallID:c1 Level:warning Logger: Text:hot}"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q", told)
	}
}

func TestAModelGetsPiecesInTheirOrder(t *testing.T) {
	r := &tools.Result{Status: tools.Success, Text: "a\nb", Output: tools.Output{
		Text: "a\nb", Segments: []chat.Segment{{Type: chat.Image, Data: "YQ=="}},
		Pieces: []tools.Piece{{Kind: tools.PieceText, Text: "a"}, {Kind: "image", Data: "YQ=="}, {Kind: tools.PieceText, Text: "b"}},
	}}
	var kinds []chat.Kind
	for _, s := range message(r).Segments {
		kinds = append(kinds, s.Type)
	}
	if !slices.Equal(kinds, []chat.Kind{chat.Text, chat.Image, chat.Text}) {
		t.Errorf("it gets %v", kinds)
	}
}
