package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"github.com/aibridge/aibridge/internal/eventually"
)

// A counting client notes the numbers that it is sent, in their order.
type counting struct {
	mqtt.Client
	mu   sync.Mutex
	came []int
}

// counts connects a client with a kept session that notes what it hears.
func counts(t *testing.T, b *binary, id, filter string) *counting {
	t.Helper()
	c := new(counting)
	c.connect(t, b, id)
	if token := c.Subscribe(filter, 2, nil); !token.WaitTimeout(eventually.Patience) || token.Error() != nil {
		t.Fatalf("%s does not subscribe: %v", id, token.Error())
	}
	return c
}

func (c *counting) connect(t *testing.T, b *binary, id string) {
	t.Helper()
	c.Client = connect(t, b, id, func(o *mqtt.ClientOptions) {
		o.SetCleanSession(false).SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) {
			n, _ := strconv.Atoi(string(m.Payload()))
			c.mu.Lock()
			defer c.mu.Unlock()
			c.came = append(c.came, n)
		})
	})
}

// hasInOrder waits until the client has the numbers from 1 to the last, and fails
// unless each came once and behind the one before it.
func (c *counting) hasInOrder(t *testing.T, what string, last int) {
	t.Helper()
	var came []int
	eventually.Holds(t, what+" has come", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		came = slices.Clone(c.came)
		return len(came) > 0 && slices.Max(came) >= last
	}, &came)
	for i, n := range came {
		if n != i+1 {
			t.Fatalf("%s: behind %d others comes message %d", what, i, n)
		}
	}
}

// says publishes the numbers of a range one after the other with QoS 2.
func says(t *testing.T, c mqtt.Client, topic string, first, last int, then func(n int)) {
	t.Helper()
	for n := first; n <= last; n++ {
		if token := c.Publish(topic, 2, false, strconv.Itoa(n)); !token.WaitTimeout(eventually.Patience) || token.Error() != nil {
			t.Errorf("message %d to %s is not taken: %v", n, topic, token.Error())
			return
		}
		then(n)
	}
}

// A linkShown is a link as bridges show it.
type linkShown struct {
	Link    string
	Bridge  string `json:"bridge_id"`
	State   string
	Problem string
	Remote  string `json:"remote_client_id"`
	Waiting int
}

// linkAt waits until a bridge shows a link in a state, run by a bridge that is none of
// some.
func linkAt(t *testing.T, b *binary, state string, not ...string) linkShown {
	t.Helper()
	var got linkShown
	eventually.Holds(t, "the link is "+state, func() bool {
		got = linkShown{}
		err := asks(t, dial(t, b), "link.get", map[string]any{"link": "far"}, &got)
		return err == nil && got.State == state && !slices.Contains(not, got.Bridge)
	}, &got)
	return got
}

// A linkedTrio is three bridges with a link to a fourth.
type linkedTrio struct {
	*trio
	remote        *binary
	data, address string    // of the remote one
	first         linkShown // the link as it is at first
	holder        int       // the bridge that runs it
}

func startLinkedTrio(t *testing.T) *linkedTrio {
	t.Helper()
	c := &linkedTrio{data: t.TempDir(), address: freeAddress()}
	c.startRemote(t)
	config := filepath.Join(t.TempDir(), "bridge.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, `dev: true
links:
  - name: far
    url: mqtt://%s
    out: [{topic: "up/#", qos: 2}]
    in: [{topic: "down/#", qos: 2}]
`, c.address), 0o600); err != nil {
		t.Fatal(err)
	}
	c.trio = startTrio(t, "--config", config)
	c.first = linkAt(t, c.bridges[0], "connected")
	c.holder = int(c.first.Bridge[1] - '1')
	return c
}

func (c *linkedTrio) startRemote(t *testing.T) {
	t.Helper()
	c.remote = startBinary(t, c.data, "--dev", "--id", "remote", "--mqtt", c.address)
}

// beside is one of the two bridges that do not run the link at first.
func (c *linkedTrio) beside(n int) *binary { return c.bridges[(c.holder+n)%3] }

// TestALinkOutlivesItsBridge kills the bridge that runs a link while messages go both
// ways. Another goes on: each message arrives once, in order.
func TestALinkOutlivesItsBridge(t *testing.T) {
	t.Parallel()
	const under, most = 60, 150 // the messages up to the kill, and all
	c := startLinkedTrio(t)
	for n := 1; n <= 2; n++ {
		if seen := linkAt(t, c.beside(n), "connected"); seen.Bridge != c.first.Bridge {
			t.Fatalf("a bridge takes %s for the one that runs the link, which is %s", seen.Bridge, c.first.Bridge)
		}
	}
	there, here := counts(t, c.remote, "there", "up/#"), counts(t, c.beside(1), "here", "down/#")
	up, down := connect(t, c.beside(2), "up"), connect(t, c.remote, "down")
	var saying sync.WaitGroup
	midst := make(chan struct{})
	saying.Go(func() {
		says(t, up, "up/x", 1, most, func(n int) {
			if n == under {
				close(midst)
			}
		})
	})
	saying.Go(func() { says(t, down, "down/x", 1, most, func(int) {}) })
	select {
	case <-midst:
	case <-time.After(eventually.Patience):
		t.Fatal("the messages do not flow")
	}
	c.bridges[c.holder].kill()
	saying.Wait()
	there.hasInOrder(t, "what goes out", most)
	here.hasInOrder(t, "what comes in", most)
	if second := linkAt(t, c.beside(1), "connected", c.first.Bridge); second.Remote != c.first.Remote {
		t.Errorf("the link was %s at the remote broker and is %s there: its session is lost", c.first.Remote, second.Remote)
	}
}

// TestWhatWaitsForALinkOutlivesItsBridge kills the bridge where messages wait for a
// remote broker that is away.
func TestWhatWaitsForALinkOutlivesItsBridge(t *testing.T) {
	t.Parallel()
	const most = 100
	c := startLinkedTrio(t)
	there := counts(t, c.remote, "there", "up/#")
	there.Disconnect(0)
	c.remote.kill()
	linkAt(t, c.beside(1), "down")
	says(t, connect(t, c.beside(2), "up"), "up/x", 1, most, func(int) {})
	c.bridges[c.holder].kill()
	c.startRemote(t)
	there.connect(t, c.remote, "there")
	there.hasInOrder(t, "what waited", most)
	linkAt(t, c.beside(1), "connected", c.first.Bridge)
}
