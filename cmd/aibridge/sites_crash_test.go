package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// TestEitherEndOfASiteIsKilled kills the site and its centre in turn, each while it is spoken
// at and while the centre calls: what was acknowledged arrives at the other end, in order and
// with QoS 2 once, no call is run twice, and the group is at the centre as it is at the site.
func TestEitherEndOfASiteIsKilled(t *testing.T) {
	t.Parallel()
	centre, plant := freeAddress(), freeAddress()
	ends := map[string]*siteEnd{
		"centre": {data: t.TempDir(), cap: "plant.hall", flags: []string{"--dev", "--id", "centre", "--mqtt", centre}},
		"plant": {data: t.TempDir(), cap: "hall", flags: []string{
			"--dev", "--id", "plant", "--mqtt", plant, "--sites-join-name", "plant", "--sites-join-url", "mqtt://" + centre, "--sites-join-caps", "*"}},
	}
	ends["centre"].start(t)
	ends["plant"].start(t)
	lamp := newCountedLamp(t, ends["plant"].binary)
	site := dial(t, ends["plant"].binary)
	for _, c := range []struct {
		command string
		params  map[string]any
	}{
		{"cap.declare", map[string]any{"cap_id": "hall", "cap_name": "Hall", "skill_id": "light"}},
		{"group.member.add", map[string]any{"cap_id": "hall", "group_id": "all", "skill_id": "light", "role": "lamp"}},
	} {
		if err := asks(t, site, c.command, c.params, nil); err != nil {
			t.Fatal(err)
		}
	}
	var told error
	eventually.Holds(t, "the messages of the Cap are carried", func() bool {
		var l struct {
			State string
			Out   []any
		}
		told = asks(t, site, "link.get", map[string]any{"link": "site"}, &l)
		return told == nil && l.State == "connected" && len(l.Out) == 1
	}, &told)

	for round, names := range [][2]string{{"plant", "centre"}, {"centre", "plant"}, {"plant", "centre"}} {
		killed, other := ends[names[0]], ends[names[1]]
		heard := hearCap(t, other.binary, other.cap)
		stop, calls := make(chan struct{}), make(chan map[string]bool, 1)
		go func() { calls <- lamp.call(t, ends["centre"].address(), fmt.Sprint("round-", round), stop) }()
		acknowledged := killed.speaksAndDies(t, fmt.Sprint("round-", round))
		killed.start(t)
		heard.has(t, acknowledged)
		lamp.answers(t, ends["centre"].binary, fmt.Sprint("after-", round))
		close(stop)
		for n, succeeded := range <-calls {
			if ran := lamp.ran(n); ran > 1 || succeeded && ran != 1 {
				t.Errorf("the call %s was run %d times; it succeeded: %t", n, ran, succeeded)
			}
		}
		t.Logf("the %s was killed after %d messages that it had acknowledged", names[0], len(acknowledged))
	}
	var group struct {
		Members []struct {
			Skill  string `json:"skill_id"`
			Status string
		}
	}
	asking := dial(t, ends["centre"].binary)
	eventually.Holds(t, "the group is at the centre", func() bool {
		err := asks(t, asking, "group.query", map[string]any{"cap_id": "plant.hall", "group_id": "all"}, &group)
		return err == nil && len(group.Members) == 1 && group.Members[0].Skill == "plant.light" && group.Members[0].Status == "online"
	}, &group)
}

// A siteEnd is one of two bridges, which is killed and started again at the same address.
type siteEnd struct {
	*binary
	data, cap string // the id that the Cap has there
	flags     []string
}

func (e *siteEnd) start(t *testing.T) {
	t.Helper()
	e.binary = startBinary(t, e.data, e.flags...)
}

// address is where clients find the bridge, also while it does not run.
func (e *siteEnd) address() string { return "mqtt://" + e.flags[slices.Index(e.flags, "--mqtt")+1] }

// speaksAndDies publishes on the Cap until the bridge, which is killed meanwhile, does not
// acknowledge any more: the even ones with QoS 2. It returns those that were acknowledged.
func (e *siteEnd) speaksAndDies(t *testing.T, topic string) (acknowledged []int) {
	t.Helper()
	c := dial(t, e.binary)
	ch, err := c.Channel(protocol.CapID(e.cap))
	if err != nil {
		t.Fatal(err)
	}
	const before = 30
	var dying sync.WaitGroup
	defer dying.Wait()
	for i := 0; ; i++ {
		if i == before {
			dying.Go(e.kill)
		}
		patience := bridgetest.Patience
		if i >= before {
			patience = 2 * time.Second
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := ch.Publish(ctx, topic, client.Message{Payload: []byte(strconv.Itoa(i)), QoS: byte(2 - i%2)})
		cancel()
		if err == nil {
			acknowledged = append(acknowledged, i)
			continue
		}
		if i < before {
			t.Fatalf("message %d: %v", i, err)
		}
		return acknowledged
	}
}

// heardCap is what a member of a Cap has heard.
type heardCap struct {
	mu   sync.Mutex
	list []string
}

func hearCap(t *testing.T, b *binary, id string) *heardCap {
	t.Helper()
	h := new(heardCap)
	ch, err := dial(t, b).Channel(protocol.CapID(id))
	if err != nil {
		t.Fatal(err)
	}
	_, err = ch.Subscribe(t.Context(), "#", func(_ context.Context, m client.Message) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.list = append(h.list, string(m.Payload))
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// has waits until all messages were heard, and checks their order, and that those of QoS 2
// came once.
func (h *heardCap) has(t *testing.T, want []int) {
	t.Helper()
	times, firsts := map[int]int{}, []int{}
	eventually.Holds(t, "all that was acknowledged is heard", func() bool {
		times, firsts = map[int]int{}, []int{}
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, text := range h.list {
			n, err := strconv.Atoi(text)
			if err != nil {
				continue
			}
			if times[n]++; times[n] == 1 {
				firsts = append(firsts, n)
			}
		}
		return !slices.ContainsFunc(want, func(n int) bool { return times[n] == 0 })
	}, &firsts)
	if !slices.IsSorted(firsts) {
		t.Errorf("heard in the order %v", firsts)
	}
	for n, count := range times {
		if n%2 == 0 && count > 1 {
			t.Errorf("message %d of QoS 2 was heard %d times", n, count)
		}
	}
}

// A countedLamp counts what it was asked for.
type countedLamp struct {
	mu   sync.Mutex
	runs map[string]int
}

func newCountedLamp(t *testing.T, b *binary) *countedLamp {
	t.Helper()
	l := &countedLamp{runs: map[string]int{}}
	c := dial(t, b, client.WithAgent(client.Agent{ID: "lamp", Name: "Lamp"}))
	_, err := c.ServeSkill(t.Context(), client.Skill{ID: "light", Name: "Light", Capabilities: []client.Capability{{
		ID: "set", ParamsSchema: json.RawMessage(`{"type":"object"}`), Handler: func(_ context.Context, in *client.Invocation) (any, error) {
			var params struct{ N string }
			err := json.Unmarshal(in.Params, &params)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.runs[params.N]++
			return params, err
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *countedLamp) ran(n string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[n]
}

// ask has the centre call the lamp.
func (l *countedLamp) ask(ctx context.Context, c *client.Client, n string) error {
	_, err := client.Call[json.RawMessage](ctx, c, "skill.invoke", map[string]any{"skill_id": "plant.light", "capability_id": "set", "params": map[string]any{"n": n}}, client.WithTimeout(5*time.Second))
	return err
}

// call has the centre call the lamp, one call after the other, and returns whether each
// has succeeded.
func (l *countedLamp) call(t *testing.T, centre, name string, stop <-chan struct{}) map[string]bool {
	outcomes := map[string]bool{}
	c, err := client.Dial(t.Context(), centre)
	if err != nil {
		t.Errorf("the caller: %v", err)
		return nil
	}
	defer c.Close()
	for i := 0; ; i++ {
		n := fmt.Sprint(name, "-", i)
		outcomes[n] = l.ask(t.Context(), c, n) == nil
		select {
		case <-stop:
			return outcomes
		case <-time.After(20 * time.Millisecond): // the pace of the calls
		}
	}
}

// answers waits until a call succeeds.
func (l *countedLamp) answers(t *testing.T, centre *binary, name string) {
	t.Helper()
	c, tries := dial(t, centre), 0
	var err error
	eventually.Holds(t, "the lamp answers the centre", func() bool {
		tries++
		err = l.ask(t.Context(), c, fmt.Sprint(name, "-", tries))
		return err == nil
	}, &err)
}
