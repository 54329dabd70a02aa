package main

import (
	"context"
	numbers "encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/eventually"
)

// A storm kills a bridge again and again while everybody is at work, and keeps
// account of what each was told.
type storm struct {
	data         string
	here, away   *listener
	acknowledged [2]uint32 // number of the last message of each publisher
	retained     [2]uint32 // and of its last retained one

	mu       sync.Mutex
	acted    map[int]int  // how often the device acted, by call
	answered map[int]bool // the calls whose success was told
	open     []int        // the calls whose answer was lost
	calls    int
}

// stormKills is AIBRIDGE_STORM: how often the bridge is killed, "" for three times.
var stormKills string

// TestAStormOfKillsLosesNothingAndRepeatsNothing kills the bridge three times,
// or AIBRIDGE_STORM times: whatever was acknowledged reaches kept sessions in
// order, retained messages are those acknowledged last or newer, the device
// acts at most once for each call, however often that is repeated, and the
// audit trail is whole.
func TestAStormOfKillsLosesNothingAndRepeatsNothing(t *testing.T) {
	kills := 3
	if stormKills != "" {
		var err error
		if kills, err = strconv.Atoi(stormKills); err != nil {
			t.Fatal(err)
		}
	}
	s := &storm{data: t.TempDir(), here: newListener("here"), away: newListener("away"), acted: make(map[int]int), answered: make(map[int]bool)}
	for range kills {
		bridge := startBinary(t, s.data, "--dev")
		s.blow(t, bridge)
	}
	s.settle(t)
	t.Logf("%d kills: %d and %d messages acknowledged, %d calls answered, %d of whose answers nobody knows", kills, s.acknowledged[0], s.acknowledged[1], len(s.answered), len(s.open))
}

// blow has everybody at work on a bridge until it is killed.
func (s *storm) blow(t *testing.T, bridge *binary) {
	const enough = 300 // messages and calls together
	if s.away.client == nil {
		s.away.connect(t, bridge)
		s.away.disconnect()
	}
	s.here.connect(t, bridge)
	device := s.device(t, bridge)
	s.repeat(t, bridge)

	var done atomic.Int32
	enoughDone := make(chan struct{})
	count := func() {
		if done.Add(1) == enough {
			close(enoughDone)
		}
	}
	var working sync.WaitGroup
	for p := range s.acknowledged {
		c := connect(t, bridge, fmt.Sprintf("publisher-%d", p))
		working.Go(func() { s.publish(c, p, count) })
	}
	for range 2 {
		working.Go(func() { s.call(bridge, count) })
	}
	select {
	case <-enoughDone:
	case <-time.After(eventually.Patience):
		t.Error("nothing moves")
	}
	bridge.kill()
	working.Wait()
	_ = device.Close()
	s.here.disconnect()
}

// device connects one that counts what it does.
func (s *storm) device(t *testing.T, bridge *binary) *client.Client {
	t.Helper()
	c := dial(t, bridge, client.WithAgent(client.Agent{ID: "counter"}))
	_, err := c.ServeSkill(t.Context(), client.Skill{
		ID: "counter", Name: "Counter", Description: "Counts", Version: "1.0.0",
		Capabilities: []client.Capability{{
			ID: "count",
			Handler: client.Handle(func(_ context.Context, _ *client.Invocation, p struct{ N int }) (struct{}, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.acted[p.N]++
				return struct{}{}, nil
			}),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the counter is online", func() bool {
		code, answered := countOnce(bridge, "ready-"+strconv.Itoa(time.Now().Nanosecond()), -1)
		return answered && code == ""
	})
	return c
}

// publish sends messages, one that is retained after each, until the bridge is
// dead.
func (s *storm) publish(c mqtt.Client, p int, count func()) {
	send := func(topic string, retain bool, n uint32) bool {
		token := c.Publish(fmt.Sprintf(topic, p), 1, retain, numbers.BigEndian.AppendUint32(nil, n))
		return token.WaitTimeout(time.Minute) && token.Error() == nil
	}
	for {
		if !send("load/%d", false, s.acknowledged[p]+1) {
			return
		}
		s.acknowledged[p]++
		if !send("state/%d", true, s.retained[p]+1) {
			return
		}
		s.retained[p]++
		count()
	}
}

// call invokes the device until the bridge is dead.
func (s *storm) call(bridge *binary, count func()) {
	for {
		s.mu.Lock()
		s.calls++
		n := s.calls
		s.mu.Unlock()
		code, answered := countOnce(bridge, "call-"+strconv.Itoa(n), n)
		s.mu.Lock()
		switch {
		case !answered:
			s.open = append(s.open, n)
		case code == "":
			s.answered[n] = true
		}
		s.mu.Unlock()
		if !answered {
			return
		}
		count()
	}
}

// repeat asks again for what the answers were lost of: each was done, or
// nobody knows (4012), or it is done now.
func (s *storm) repeat(t *testing.T, bridge *binary) {
	t.Helper()
	for _, n := range s.open {
		switch code, answered := countOnce(bridge, "call-"+strconv.Itoa(n), n); {
		case !answered:
			t.Errorf("call %d is not answered when it is repeated", n)
		case code == "":
			s.answered[n] = true
		case code != "4012":
			t.Errorf("call %d repeated: %s", n, code)
		}
	}
	s.open = nil
}

// countOnce calls the device with an idempotency key. Answered is false if the
// connection broke.
func countOnce(bridge *binary, key string, n int) (code string, answered bool) {
	body := fmt.Sprintf(`{"skill_id":"counter","capability_id":"count","params":{"n":%d}}`, n)
	r, err := http.NewRequest(http.MethodPost, "http://"+bridge.addresses.HTTP+"/api/v1/commands/skill.invoke", strings.NewReader(body))
	if err != nil {
		return "", false
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", false
	}
	defer response.Body.Close()
	var failure struct{ Error struct{ Code string } }
	if json.NewDecoder(response.Body).Decode(&failure) != nil {
		return "", false
	}
	return failure.Error.Code, true
}

// settle starts the bridge a last time and balances the accounts.
func (s *storm) settle(t *testing.T) {
	t.Helper()
	bridge := startBinary(t, s.data, "--dev")
	lost := len(s.open)
	device := s.device(t, bridge)
	s.repeat(t, bridge)
	_ = device.Close()
	for _, l := range []*listener{s.here, s.away} {
		l.connect(t, bridge)
		for p, last := range s.acknowledged {
			l.await(t, fmt.Sprintf("load/%d", p), last)
		}
		l.disconnect()
	}
	reader := connect(t, bridge, "reader")
	states := make(chan mqtt.Message, 2*len(s.retained))
	if token := reader.Subscribe("state/+", 1, func(_ mqtt.Client, m mqtt.Message) { states <- m }); !token.WaitTimeout(time.Minute) || token.Error() != nil {
		t.Fatal(token.Error())
	}
	for range s.retained {
		select {
		case m := <-states:
			p, _ := strconv.Atoi(strings.TrimPrefix(m.Topic(), "state/"))
			if n := numbers.BigEndian.Uint32(m.Payload()); n < s.retained[p] || n > s.retained[p]+1 {
				t.Errorf("%s is %d, %d was acknowledged", m.Topic(), n, s.retained[p])
			}
		case <-time.After(eventually.Patience):
			t.Fatal("retained messages are missing")
		}
	}
	for n, times := range s.acted {
		if n > 0 && times > 1 {
			t.Errorf("the device acted %d times for call %d", times, n)
		}
	}
	for n := range s.answered {
		if s.acted[n] != 1 {
			t.Errorf("call %d was answered, and the device acted %d times", n, s.acted[n])
		}
	}
	if out, stderr, code := run(t, bridge, "audit", "verify"); code != 0 {
		t.Errorf("the audit trail: %d %s%s", code, out, stderr)
	}
	t.Logf("%d answers were lost with the last kill", lost)
}
