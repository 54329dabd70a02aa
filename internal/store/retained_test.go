package store

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/eventually"
)

func TestRetainedMessagesAreFollowedInOneOrder(t *testing.T) {
	n := embedded(t, t.TempDir())
	open := func() *RetainedLog {
		s, err := Open(t.Context(), Conns{State: n.State(), Flow: n.Flow()}, patient(Options{}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		l, err := s.OpenRetained(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	one, two := open(), open()
	positions, err := one.Put(t.Context(), []broker.RetainedValue{
		{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("2")}, {Key: "a b/>*.", Value: []byte("odd")}, {Key: "gone", Value: []byte("x"), Life: time.Hour},
	})
	if err != nil || len(positions) != 4 {
		t.Fatal(positions, err)
	}
	if _, err := two.Put(t.Context(), []broker.RetainedValue{{Key: "gone"}}); err != nil {
		t.Fatal(err)
	}
	positions, err = two.Put(t.Context(), []broker.RetainedValue{
		{Key: "a", Value: []byte("0"), Earlier: true}, {Key: "gone", Value: []byte("0"), Earlier: true}, {Key: "early", Value: []byte("0"), Life: time.Hour, Earlier: true},
	})
	if err != nil || positions[0] != 0 || positions[1] != 0 || positions[2] == 0 {
		t.Fatal(positions, err)
	}

	var mu sync.Mutex
	saw := make(map[string]string)
	last := uint64(0)
	ctx, stop := context.WithCancel(t.Context())
	current, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		two.Follow(ctx, func() { close(current) }, func(position uint64, key string, value []byte) {
			mu.Lock()
			defer mu.Unlock()
			if position <= last {
				t.Errorf("position %d came behind %d", position, last)
			}
			last, saw[key] = position, string(value)
		})
	}()
	<-current
	has := func(want string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return fmt.Sprint(saw) == want
		}
	}
	if !has("map[a:1 a b/>*.:odd b:2 early:0 gone:]")() {
		t.Errorf("at first there is %v", saw)
	}
	if _, err := one.Put(t.Context(), []broker.RetainedValue{{Key: "b", Value: []byte("3")}}); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the follower hears of a change", has("map[a:1 a b/>*.:odd b:3 early:0 gone:]"))
	stop()
	<-ended
}
