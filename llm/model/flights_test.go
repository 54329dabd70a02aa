package model

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

func TestWhoJoinsAFlightSharesTheProvidersFailureAlone(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		asked int
	}{
		"the provider is down":     {failures{{"p", chat.Errorf(chat.Overloaded, "no")}}.error(0), 1},
		"the provider refuses":     {failures{{"p", chat.Errorf(chat.BadRequest, "no")}}.error(0), 1},
		"a stream broke off":       {failures{{"p", chat.Errorf(chat.CutOff, "no")}}.error(0), 5},
		"the first went away":      {context.Canceled, 5},
		"its budget is spent":      {protocol.Errorf(protocol.BudgetSpent, "no"), 5},
		"its own time ran out":     {context.DeadlineExceeded, 5},
		"it was cancelled by hand": {protocol.Errorf(protocol.Cancelled, "no"), 5},
	} {
		bubble.Test(t, func(t *testing.T) {
			var f flights
			var asked int // one at a time
			var all sync.WaitGroup
			begin := make(chan struct{})
			for range 5 {
				all.Go(func() {
					_, _, err := f.do(t.Context(), cacheKey{space: "s"}, func() (*Reply, error) {
						if asked++; asked == 1 {
							<-begin
						}
						return nil, test.err
					})
					if err == nil {
						t.Errorf("%s: it is answered", name)
					}
				})
			}
			synctest.Wait() // all but the first have joined
			close(begin)
			all.Wait()
			if asked != test.asked {
				t.Errorf("%s: %d were asked, want %d", name, asked, test.asked)
			}
		})
	}
}

func TestAQueryThatCannotBeWrittenDownIsLikeNoOther(t *testing.T) {
	broken := &chat.Request{Messages: []chat.Message{{Role: chat.User, Segments: []chat.Segment{{Type: chat.UI, UI: []byte("{")}}}}}
	if key, ok := keyOf("s", "alice", "m", broken); ok {
		t.Errorf("its key is %+v", key)
	}
	if _, ok := keyOf("s", "alice", "m", &chat.Request{}); !ok {
		t.Error("a plain one has no key")
	}
}
