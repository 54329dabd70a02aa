package client_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func TestDialRefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		address string
		option  client.Option
	}{
		{"127.0.0.1:1883", client.WithClientID("a")},
		{"http://127.0.0.1:1883", client.WithClientID("a")},
		{"mqtt://", client.WithClientID("a")},
		{"mqtt://127.0.0.1:1", client.WithClientID("a/b")},
		{"mqtt://127.0.0.1:1", client.WithAgent(client.Agent{})},
	} {
		_, err := client.Dial(soon(t), test.address, test.option)
		expectCode(t, err, protocol.InvalidParameter)
	}
}

func TestDialFailsAtOnceOnBadCredentials(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	begun := time.Now()
	_, err := client.Dial(soon(t), b.url(), client.WithAPIKey("bad"))
	expectCode(t, err, protocol.CredentialInvalid)
	if strings.Contains(err.Error(), "bad key") || time.Since(begun) > patience/2 {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
	b.dial(client.WithAPIKey("good"))
	b.dial(client.WithPassword("apikey", "good"))
}

func TestDialTriesUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	b.stop()
	var err error
	for timeout := 200 * time.Millisecond; timeout < patience; timeout *= 2 { // until it came to trying at all
		ctx, cancel := context.WithTimeout(soon(t), timeout)
		_, err = client.Dial(ctx, b.url())
		cancel()
		expectCode(t, err, protocol.TargetUnavailable)
		if strings.Contains(err.Error(), "refused") {
			break
		}
	}
	if !strings.Contains(err.Error(), "refused") {
		t.Errorf("the reason is not told: %v", err)
	}

	dialled := make(chan error, 1)
	go func() {
		c, err := client.Dial(soon(t), b.url())
		if err == nil {
			err = c.Close()
		}
		dialled <- err
	}()
	b.start()
	if err := <-dialled; err != nil {
		t.Error(err)
	}
}

func TestDialOverWebSocket(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	b.on("math.add", add)
	server := httptest.NewServer(b.engine.Load().WebSocket("ws"))
	defer server.Close()
	c, err := client.Dial(soon(t), "ws"+strings.TrimPrefix(server.URL, "http")+"/mqtt")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := client.Call[sum](soon(t), c, "math.add", map[string]int{"a": 1}); err != nil || got.Sum != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestClientEndsWhenItsIDIsTakenOver(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	b.on("math.add", add)
	first := b.dial(client.WithClientID("me"))
	second := b.dial(client.WithClientID("me"))
	select {
	case <-first.Done():
	case <-time.After(patience):
		t.Fatal("the first client goes on")
	}
	expectCode(t, first.Err(), protocol.InvalidState)
	_, err := client.Call[any](soon(t), first, "math.add", nil)
	expectCode(t, err, protocol.InvalidState)
	if _, err := client.Call[sum](soon(t), second, "math.add", nil); err != nil {
		t.Errorf("the second client: %v", err)
	}
}

func TestClosedClientDoesNothing(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	c := b.dial(client.WithClientID("me"))
	if c.ID() != "me" || c.Err() != nil {
		t.Errorf("id %s, %v", c.ID(), c.Err())
	}
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if c.Err() != nil {
		t.Errorf("Err: %v", c.Err())
	}
	_, err := client.Call[any](soon(t), c, "x.y", nil)
	expectCode(t, err, protocol.InvalidState)
	_, err = c.Subscribe(soon(t), "x", nil)
	expectCode(t, err, protocol.InvalidState)
	expectCode(t, c.Publish(soon(t), client.Message{Topic: "x"}), protocol.InvalidState)
	eventually.Holds(t, "me is gone", func() bool { return !slices.Contains(b.connected(), "me") })
}
