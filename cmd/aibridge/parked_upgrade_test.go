package main

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/bridgetest"
)

// earlierProgram is AIBRIDGE_EARLIER: a program of an earlier release, "" to leave out
// the tests of upgrades.
var earlierProgram string

// claimsForgotten is longer than a bridge remembers the claim of a call of a tool.
const claimsForgotten = 200 * time.Second

// TestACallThatWaitsOutlivesAnUpgrade has a model want to ring a bell under one release,
// and somebody agree under the other. The bridge is killed while the bell rings, and the
// other release goes on.
func TestACallThatWaitsOutlivesAnUpgrade(t *testing.T) {
	if earlierProgram == "" {
		t.Skip("AIBRIDGE_EARLIER names no program of an earlier release")
	}
	present, err := build()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&ringer{})
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	flags := []string{"--dev", "--llm-base-url", server.URL + "/v1", "--llm-model", "m-1"}
	risky := func(c *client.Capability) { c.Risk = "high" }

	for name, programs := range map[string][3]string{ // that park the call, begin it, and go on with it
		"parked before, cut off after it, gone on with before": {earlierProgram, present, earlierProgram},
		"parked and cut off before, gone on with after it":     {earlierProgram, earlierProgram, present},
		"parked and cut off after it, gone on with before":     {present, present, earlierProgram},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			var rings atomic.Int32
			ringing, silent := make(chan struct{}, 4), make(chan struct{})
			t.Cleanup(func() { close(silent) })
			ring := func() {
				rings.Add(1)
				ringing <- struct{}{}
				<-silent
			}
			bridge := startProgram(t, programs[0], data, flags...)
			serveBell(t, bridge, false, ring, risky)
			turn := wantsToRing(t, bridge, "llm.query", `{"query":"Ring, please","tools":["bell.*"],"approval_wait_ms":0}`)
			bridge.kill()

			bridge = startProgram(t, programs[1], data, flags...)
			serveBell(t, bridge, false, ring, risky)
			agreesTo(t, bridge, turn.Waiting.Approval)
			waitFor(t, ringing, "the bell rings", bridge)
			bridge.kill()

			bridge = startProgram(t, programs[2], data, flags...)
			serveBell(t, bridge, false, func() { rings.Add(1) }, risky)
			state, said := endOf(t, bridge, turn.Waiting.Task)
			t.Logf("the task is %s, and the model said %q", state, said)
			if rings.Load() != 1 || !strings.Contains(said, "4012") {
				t.Errorf("the task is %s, the model said %q, and the bell was rung %d times\n%s", state, said, rings.Load(), bridge.log)
			}
		})
	}
}

// TestACallThatBeganIsNotMadeAgainByAnEarlierRelease kills all three bridges of a cluster
// while the bell rings. An earlier release goes on when the claim of the call is forgotten:
// nothing but the records of the approval and of the task say then that the call has begun.
func TestACallThatBeganIsNotMadeAgainByAnEarlierRelease(t *testing.T) {
	if earlierProgram == "" {
		t.Skip("AIBRIDGE_EARLIER names no program of an earlier release")
	}
	server := httptest.NewServer(&ringer{})
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	c := startTrio(t, "--dev", "--llm-base-url", server.URL+"/v1", "--llm-model", "m-1")
	var rings atomic.Int32
	ringing, silent := make(chan struct{}, 1), make(chan struct{})
	t.Cleanup(func() { close(silent) })
	risky := func(c *client.Capability) { c.Risk = "high" }
	serveBell(t, c.bridges[0], false, func() {
		rings.Add(1)
		ringing <- struct{}{}
		<-silent
	}, risky)
	turn := wantsToRing(t, c.bridges[0], "llm.query", `{"query":"Ring, please","tools":["bell.*"],"approval_wait_ms":0}`)
	agreesTo(t, c.bridges[0], turn.Waiting.Approval)
	waitFor(t, ringing, "the bell rings", c.bridges[0])
	for _, b := range c.bridges {
		b.kill()
	}
	time.Sleep(claimsForgotten)

	deadline := time.Now().Add(3 * bridgetest.Patience)
	for i, b := range c.bridges {
		c.bridges[i] = &binary{path: earlierProgram, data: b.data, log: new(bytes.Buffer), ended: make(chan struct{})}
		c.bridges[i].launch(t, c.flags[i]...)
	}
	if ended := c.listen(t, deadline); ended != nil {
		t.Fatalf("a bridge ended:\n%s", ended.log)
	}
	serveBell(t, c.bridges[1], false, func() { rings.Add(1) }, risky)
	state, said := endOf(t, c.bridges[2], turn.Waiting.Task)
	t.Logf("the task is %s, the model said %q", state, said)
	if rings.Load() != 1 || !strings.Contains(said, "4012") {
		t.Errorf("the bell was rung %d times", rings.Load())
	}
}

// TestACallThatWaitsIsMadeOnceBesideAnEarlierRelease runs a bridge of this
// release beside two of an earlier one, and kills each of them in turn while an approved
// call is made.
func TestACallThatWaitsIsMadeOnceBesideAnEarlierRelease(t *testing.T) {
	if earlierProgram == "" {
		t.Skip("AIBRIDGE_EARLIER names no program of an earlier release")
	}
	server := httptest.NewServer(&ringer{})
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	whole, c := t, startTrio(t, "--dev", "--llm-base-url", server.URL+"/v1", "--llm-model", "m-1")
	for i := range 2 {
		c.bridges[i].kill()
		c.bridges[i].path = earlierProgram
		c.restart(t, i)
	}
	for killed := range c.bridges {
		t.Run(fmt.Sprintf("bridge %d dies", killed+1), func(t *testing.T) {
			next := (killed + 1) % len(c.bridges)
			var rings atomic.Int32
			ringing, silent := make(chan struct{}, 1), make(chan struct{})
			serveBell(t, c.bridges[next], false, func() {
				if rings.Add(1) == 1 {
					ringing <- struct{}{}
					<-silent
				}
			}, func(c *client.Capability) { c.Risk = "high" })
			turn := wantsToRing(t, c.bridges[killed], "llm.query", `{"query":"Ring, please","tools":["bell.*"],"approval_wait_ms":0}`)
			agreesTo(t, c.bridges[killed], turn.Waiting.Approval)
			waitFor(t, ringing, "the bell rings", c.bridges[killed])
			c.bridges[killed].kill()
			close(silent)
			state, said := endOf(t, c.bridges[next], turn.Waiting.Task)
			t.Logf("the task is %s, the model said %q, and the bell was rung %d times", state, said, rings.Load())
			if rings.Load() != 1 {
				t.Errorf("the bell was rung %d times\n%s", rings.Load(), c.bridges[next].log)
			}
			c.restart(whole, killed)
		})
	}
}
