package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A ledger notes what a consumer handled.
type ledger struct {
	mu      sync.Mutex
	handled []string
	refuse  int // so many batches, before it handles one
}

func (l *ledger) handle(_ context.Context, batch []client.Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse > 0 {
		l.refuse--
		return errors.New("not yet")
	}
	for _, m := range batch {
		l.handled = append(l.handled, string(m.Payload))
	}
	return nil
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.handled)
}

// expect waits for so many messages and holds them to be 0, 1, 2 and so on.
func (l *ledger) expect(t *testing.T, n int) {
	t.Helper()
	eventually.Holds(t, fmt.Sprintf("%d messages are handled", n), func() bool { return l.count() >= n })
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, text := range l.handled {
		if text != fmt.Sprint(i) {
			t.Fatalf("message %d is %s: %v", i, text, l.handled)
		}
	}
}

// consume runs a consumer of x/# until stop, which tells its error.
func (b *bridge) consume(handle func(context.Context, []client.Message) error) (stop func() error) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- client.Consume(ctx, b.url(), client.Consumer{
			Session: "table", Filters: []string{"x/#"}, Batch: 7, Linger: time.Millisecond, Handle: handle})
	}()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	b.t.Cleanup(func() {
		if err := stop(); err != nil {
			b.t.Errorf("the consumer ended: %v", err)
		}
	})
	eventually.Holds(b.t, "the consumer is subscribed", func() bool {
		for c := range b.engine.Load().Clients() {
			if c.ID == "table" {
				n, _ := b.publish(protocol.Message{Topic: "x/probe"})
				return n == 1
			}
		}
		return false
	})
	return stop
}

// numbers publishes those from one to before another, with QoS 1.
func (b *bridge) numbers(from, to int) {
	b.t.Helper()
	for i := from; i < to; i++ {
		if _, err := b.publish(protocol.Message{Topic: "x/y", Payload: fmt.Append(nil, i), QoS: 1}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// unprobed leaves the messages out that only ask whether somebody listens.
func unprobed(handle func(context.Context, []client.Message) error) func(context.Context, []client.Message) error {
	return func(ctx context.Context, batch []client.Message) error {
		var own []client.Message
		for _, m := range batch {
			if m.Topic != "x/probe" {
				own = append(own, m)
			}
		}
		return handle(ctx, own)
	}
}

func TestAConsumerHandlesInOrderWhatItRefusedAtFirst(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	l := &ledger{refuse: 3}
	b.consume(unprobed(l.handle))
	b.numbers(0, 100)
	l.expect(t, 100)
}

func TestAConsumerGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	first := &ledger{}
	stop := b.consume(unprobed(first.handle))
	b.numbers(0, 20)
	first.expect(t, 20)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	b.numbers(20, 40)
	b.consume(unprobed(first.handle))
	b.numbers(40, 60)
	first.expect(t, 60)
}

func TestWhatAConsumerDidNotHandleComesAgain(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	got := make(chan struct{}, 100)
	stop := b.consume(unprobed(func(ctx context.Context, batch []client.Message) error {
		if len(batch) > 0 {
			got <- struct{}{}
			<-ctx.Done()
		}
		return ctx.Err()
	}))
	b.numbers(0, 20)
	<-got
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	l := &ledger{}
	b.consume(unprobed(l.handle))
	l.expect(t, 20)
	if l.count() != 20 {
		t.Errorf("%d messages were handled", l.count())
	}
}

func TestABrokenConnectionBringsAgainWhatWasNotHandled(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	l := &ledger{refuse: 1 << 30}
	b.consume(unprobed(l.handle))
	b.numbers(0, 20)
	for range 3 {
		broken := false
		eventually.Holds(t, "the connection is broken", func() bool {
			for c := range b.engine.Load().Clients() {
				broken = b.engine.Load().End(c, 0x98, "for the test") || broken
			}
			return broken
		})
	}
	l.mu.Lock()
	l.refuse = 2
	l.mu.Unlock()
	l.expect(t, 20)
}

// TestAConsumerHandlesBatchesBesideEachOther holds the first batch back until the third
// is handled. More messages come than may be on their way, so they are acknowledged.
func TestAConsumerHandlesBatchesBesideEachOther(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	ready, third := make(chan struct{}, 1), make(chan struct{})
	var l ledger
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	what := client.Consumer{Session: "table", Filters: []string{"x/#"}, Batch: 1, InFlight: 3, Ready: func() { ready <- struct{}{} },
		Handle: func(ctx context.Context, batch []client.Message) error {
			switch string(batch[0].Payload) {
			case "0":
				select {
				case <-third:
				case <-ctx.Done():
					return ctx.Err()
				}
			case "2":
				close(third)
			}
			return l.handle(ctx, batch)
		}}
	go func() { ended <- client.Consume(ctx, b.url(), what) }()
	<-ready
	b.numbers(0, 10)
	eventually.Holds(t, "all are handled", func() bool { return l.count() == 10 })
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestAConsumerTakesMessagesAtMostOnce(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	got, ready := make(chan client.Message, 1), make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- client.Consume(ctx, b.url(), client.Consumer{Session: "table", Filters: []string{"x/#"}, AtMostOnce: true, Linger: time.Millisecond,
			Ready: func() { ready <- struct{}{} }, Handle: func(_ context.Context, batch []client.Message) error { got <- batch[0]; return nil }})
	}()
	<-ready
	b.numbers(0, 1)
	if m := <-got; m.QoS != 0 || string(m.Payload) != "0" {
		t.Errorf("%+v", m)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAConsumerEndsWhenItIsRefused(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	handle := func(context.Context, []client.Message) error { return nil }
	for _, c := range []struct {
		name    string
		what    client.Consumer
		options []client.Option
		code    protocol.Code
	}{
		{"session", client.Consumer{Filters: []string{"x"}, Handle: handle}, nil, protocol.InvalidParameter},
		{"filters", client.Consumer{Session: "s", Handle: handle}, nil, protocol.InvalidParameter},
		{"filter", client.Consumer{Session: "s", Filters: []string{"a#"}, Handle: handle}, nil, protocol.InvalidParameter},
		{"handle", client.Consumer{Session: "s", Filters: []string{"x"}}, nil, protocol.InvalidParameter},
		{"batch", client.Consumer{Session: "s", Filters: []string{"x"}, Handle: handle, Batch: 10_001}, nil, protocol.InvalidParameter},
		{"in flight", client.Consumer{Session: "s", Filters: []string{"x"}, Handle: handle, InFlight: 1001}, nil, protocol.InvalidParameter},
		{"keep", client.Consumer{Session: "s", Filters: []string{"x"}, Handle: handle, Keep: -1}, nil, protocol.InvalidParameter},
		{"agent", client.Consumer{Session: "s", Filters: []string{"x"}, Handle: handle}, []client.Option{client.WithAgent(client.Agent{ID: "a"})}, protocol.InvalidParameter},
		{"topic", client.Consumer{Session: "s", Filters: []string{"forbidden/x"}, Handle: handle}, nil, protocol.PermissionDenied},
		{"key", client.Consumer{Session: "s", Filters: []string{"x"}, Handle: handle}, []client.Option{client.WithAPIKey("bad")}, protocol.CredentialInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			expectCode(t, client.Consume(soon(t), b.url(), c.what, c.options...), c.code)
		})
	}
}

func TestASecondConsumerOfASessionEndsTheFirst(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	what := client.Consumer{Session: "one", Filters: []string{"x"}, Handle: func(context.Context, []client.Message) error { return nil }}
	ended := make(chan error, 1)
	go func() { ended <- client.Consume(soon(t), b.url(), what) }()
	eventually.Holds(t, "it is connected", func() bool { return len(b.connected()) == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() { second <- client.Consume(ctx, b.url(), what) }()
	expectCode(t, <-ended, protocol.InvalidState)
	cancel()
	if err := <-second; err != nil {
		t.Error(err)
	}
}
