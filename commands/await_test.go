package commands_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// await has something lent to who waits for it.
func (l *lending) await(ctx context.Context, id, params string) (got *protocol.Response) {
	in := l.inbound(envelope(id, "test.lend", fmt.Sprintf(`{"name":"saw","params":%s}`, params)))
	in.Plans, in.Free = &l.plans, func() { l.freed.Add(1) }
	l.Await(ctx, in, func(r *protocol.Response) { got = lasting(r) })
	return got
}

func TestWhoWaitsIsAnsweredAndTheCallIsUsedAgain(t *testing.T) {
	l := newLending(t)
	answers := make(chan *protocol.Response)
	go func() { answers <- l.await(t.Context(), "1", `{"n":1}`) }()
	o := <-l.begun
	o.end()
	wantSaid(t, <-answers, `{"id":"1","params":{"n":1}}`)
	if l.freed.Load() != 1 {
		t.Error("the call is not used again")
	}
}

func TestWhoLeavesIsToldWhyAndTheCallGoesOn(t *testing.T) {
	l := newLending(t)
	ctx, leave := context.WithCancel(t.Context())
	answers := make(chan *protocol.Response)
	go func() { answers <- l.await(ctx, "1", `{"n":1}`) }()
	o := <-l.begun
	leave()
	if got := <-answers; got.Err == nil || got.ID != "1" {
		t.Errorf("it is told %+v", got)
	}
	o.end()
	eventually.Holds(t, "the call is used again", func() bool { return l.freed.Load() == 1 })
	wantSaid(t, l.await(t.Context(), "1", `{"n":1}`), `{"id":"1","params":{"n":1}}`)
}

// TestWhoeverWaitsIsAnsweredOnceWithItsOwn has callers leave while they are answered.
func TestWhoeverWaitsIsAnsweredOnceWithItsOwn(t *testing.T) {
	l := newLending(t)
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for n := range 100 {
				id := fmt.Sprintf("%d-%d", i, n)
				ctx, leave := context.WithCancel(t.Context())
				go leave()
				got := l.await(ctx, id, `{}`)
				leave()
				if got.ID != id || got.Err == nil && !strings.Contains(string(got.Result), `"id":"`+id+`"`) {
					t.Errorf("%s is answered %+v", id, got)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		for range 800 {
			o := <-l.begun
			o.end()
		}
		close(ended)
	}()
	callers.Wait()
	<-ended
}
