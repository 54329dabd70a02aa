package run

import (
	"fmt"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
)

func TestPagesOfTurnsKeepNoMoreThanTheyShow(t *testing.T) {
	const n = 30
	answers := make([]*chat.Answer, n)
	for i := range answers {
		answers[i] = says(fmt.Sprint("answer ", i+1))
	}
	w := newWorld(t, script(answers...))
	id := w.start(StartParams{Input: ptr("0")})
	w.rest(id)
	for i := 1; i < n; i++ {
		w.goOn(id, ptr(fmt.Sprint(i)))
		w.rest(id)
	}
	var seen []string
	for after := 0; ; {
		got, err := w.Turns(t.Context(), callOf(alice), TurnsParams{Run: id, After: after, Limit: 7})
		if err != nil || got.Total != n || len(got.Turns) > 7 {
			t.Fatalf("%d of %d, %v", len(got.Turns), got.Total, err)
		}
		for _, turn := range got.Turns {
			seen = append(seen, turn.ID)
		}
		if after = got.NextAfter; after == 0 {
			break
		}
	}
	if len(seen) != n || seen[0] != "C01" || seen[n-1] != "C30" {
		t.Errorf("the pages have %q", seen)
	}
	r, _, _ := w.opts.Runs.Get(id)
	o, err := w.open(t.Context(), r, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	kept := 0
	for _, turn := range o.story.turns {
		if turn != nil {
			kept++
		}
	}
	if len(o.story.turns) != n || kept != 1 {
		t.Errorf("of %d turns %d are kept to go on with", len(o.story.turns), kept)
	}
	if talk := o.story.conversation(); len(talk) != 2*n {
		t.Errorf("the conversation has %d messages", len(talk))
	}
}
