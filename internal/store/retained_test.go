package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/natsd"
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
		two.Follow(ctx, func() { close(current) }, func(position uint64, v broker.RetainedValue) {
			mu.Lock()
			defer mu.Unlock()
			if position <= last {
				t.Errorf("position %d came behind %d", position, last)
			}
			last, saw[v.Key] = position, string(v.Value)
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

// TestTheLargestRetainedMessageIsTaken puts one of the greatest length, with as many
// bridges that have it as a cluster may have.
func TestTheLargestRetainedMessageIsTaken(t *testing.T) {
	n := embedded(t, t.TempDir())
	s, err := Open(t.Context(), Conns{State: n.State(), Flow: n.Flow()}, patient(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := s.OpenRetained(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	process := broker.Process{ID: strings.Repeat("b", 64), Epoch: 1<<64 - 1}
	v := broker.RetainedValue{Key: "key", Value: make([]byte, l.Largest()-len("key")), Life: time.Hour, By: process, Given: slices.Repeat([]broker.Process{process}, 100), Number: 1<<64 - 1}
	if _, err := l.Put(t.Context(), []broker.RetainedValue{v}); err != nil {
		t.Error(err)
	}
}

// What is known of a publication comes with it. Of a text that is none of ours, nothing is.
func TestRetainedMessagesSayWhoHasThem(t *testing.T) {
	for _, want := range []broker.RetainedValue{
		{Number: 7, By: broker.Process{ID: "a", Epoch: 1}},
		{Number: 1<<64 - 1, By: broker.Process{ID: "a/b", Epoch: 1 << 63}, Given: []broker.Process{{ID: "b", Epoch: 2}, {ID: "c", Epoch: 30}}},
	} {
		var got broker.RetainedValue
		parseGiven(givenText(&want), &got)
		if got.Number != want.Number || got.By != want.By || !slices.Equal(got.Given, want.Given) {
			t.Errorf("of %q there is %+v", givenText(&want), got)
		}
	}
	for _, text := range []string{"", "7", "a/1", "7 a", "7 /1", "7 a/b", "7 a/1 b", "-7 a/1", "7  a/1"} {
		var got broker.RetainedValue
		if parseGiven(text, &got); got.By.ID != "" || got.Given != nil || got.Number != 0 {
			t.Errorf("%q is taken for %+v", text, got)
		}
	}
}

// A server that has lost touch with the leader of a stream sends heartbeats to those who
// follow the stream there, and no messages: as one does whose consumer is paused. Who
// follows notices, and reads on from another consumer.
func TestAFollowerNoticesThatMessagesDoNotCome(t *testing.T) {
	t.Parallel()
	n := embedded(t, t.TempDir())
	s, err := Open(t.Context(), Conns{State: n.State(), Flow: n.Flow()}, patient(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	l, err := s.OpenRetained(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	current, ended, came := make(chan struct{}), make(chan struct{}), make(chan string, 10)
	go func() {
		defer close(ended)
		l.Follow(ctx, func() { close(current) }, func(_ uint64, v broker.RetainedValue) { came <- v.Key })
	}()
	defer func() { stop(); <-ended }()
	<-current

	pauseConsumers(t, n, l.stream)
	if _, err := l.Put(t.Context(), []broker.RetainedValue{{Key: "a", Value: []byte("1")}}); err != nil {
		t.Fatal(err)
	}
	select {
	case key := <-came:
		if key != "a" {
			t.Errorf("%q came", key)
		}
	case <-time.After(eventually.Patience):
		t.Error("nothing came")
	}
}

// pauseConsumers has the consumers of a stream deliver nothing, but for heartbeats.
func pauseConsumers(t *testing.T, n *natsd.Server, name string) {
	t.Helper()
	js, err := jetstream.New(n.Flow())
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	consumers := stream.ConsumerNames(t.Context())
	paused := ""
	for paused = range consumers.Name() {
		if _, err := js.PauseConsumer(t.Context(), name, paused, time.Now().Add(24*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if paused == "" || consumers.Err() != nil {
		t.Fatal("nobody follows", consumers.Err())
	}
}

// What a server says is left, and does not deliver, is waited for no longer than for one
// that says nothing of it.
func TestAReaderDoesNotWaitForEverForWhatIsLeft(t *testing.T) {
	t.Parallel()
	n := embedded(t, t.TempDir())
	s, err := Open(t.Context(), Conns{State: n.State(), Flow: n.Flow()}, patient(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	l, err := s.OpenRetained(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := consume(t.Context(), s.flow, l.stream, 1, eventually.Patience)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	pauseConsumers(t, n, l.stream)
	if _, err := l.Put(t.Context(), []broker.RetainedValue{{Key: "a", Value: []byte("1")}}); err != nil {
		t.Fatal(err)
	}
	c.left, c.patience = 1, 2*heartbeat
	if err := c.drain(func(message) error { t.Error("a message came"); return nil }); !errors.Is(err, errLags) {
		t.Errorf("it ended with %v", err)
	}
}
