package app_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

// must runs a command that has to succeed.
func must(t testing.TB, c *bridgetest.Raw, command, params string) json.RawMessage {
	t.Helper()
	answer := c.Ask(t, bridgetest.Request(protocol.NewID(), command, params))
	if answer.Err != nil {
		t.Fatalf("%s %s: %v %v", command, params, answer.Err, answer.Err.Details)
	}
	return answer.Result
}

// home declares a Cap with a group of the given skills.
func home(t testing.TB, c *bridgetest.Raw, members ...string) {
	t.Helper()
	must(t, c, "cap.declare", `{"cap_id":"home","cap_name":"Home","skill_id":"owner","max_members":1000}`)
	for _, m := range members {
		must(t, c, "group.member.add", fmt.Sprintf(`{"cap_id":"home","group_id":"all","skill_id":%q,"role":"device"}`, m))
	}
}

func TestOneMemberSetsDataAndAnotherSeesIt(t *testing.T) {
	n := bridgetest.Start(t)
	one, two := n.Caller(t, "one"), n.Connect(t, "two")
	home(t, one, "one", "two")
	two.Listen(t, "aibridge/cap/home/data/#")
	must(t, one, "group.data.set", `{"cap_id":"home","group_id":"all","data_key":"temperature","data_value":21.5,"data_type":"number"}`)
	p := two.Next(t)
	if p.Topic != "aibridge/cap/home/data/all/temperature" || !strings.Contains(string(p.Payload), `"data_value":21.5`) || p.QoS != 1 {
		t.Errorf("got %s on %s", p.Payload, p.Topic)
	}

	n.Restart(t) // who comes later sees the last value, whatever happened meanwhile
	late := n.Connect(t, "late")
	late.Listen(t, "aibridge/cap/home/data/all/+")
	if p := late.Next(t); !strings.Contains(string(p.Payload), `"data_value":21.5`) {
		t.Errorf("after a restart: %s", p.Payload)
	}
	caller := n.Caller(t, "caller")
	must(t, caller, "cap.remove", `{"cap_id":"home","force":true}`)
	if p := late.Next(t); len(p.Payload) != 0 {
		t.Errorf("the value stays: %s", p.Payload)
	}
}

func TestMembershipIsToldOnTheCapsTopic(t *testing.T) {
	n := bridgetest.Start(t)
	caller, watcher := n.Caller(t, "caller"), n.Connect(t, "watcher")
	watcher.Listen(t, "aibridge/cap/home/event")
	home(t, caller, "one", "two")
	must(t, caller, "group.link.add", `{"cap_id":"home","group_id":"all","source_skill_id":"one","target_skill_id":"two","link_type":"data_flow"}`)
	must(t, caller, "group.member.remove", `{"cap_id":"home","group_id":"all","skill_id":"two"}`)
	var seq uint64
	for _, want := range []string{
		"cap.declared", "group.member.added", "group.member.added", "group.link.added", "group.link.added",
		"group.member.removed", "group.link.removed", "group.link.removed",
	} {
		e := told(t, watcher)
		for strings.HasPrefix(e.Name, "cap.vfs.") { // the mirror tells when it comes to it
			e = told(t, watcher)
		}
		if e.Name != want || e.Seq <= seq {
			t.Fatalf("got %+v, want %s", e, want)
		}
		seq = e.Seq
	}
}

func told(t *testing.T, r *bridgetest.Raw) *protocol.Event {
	t.Helper()
	e, err := protocol.DecodeEvent(r.Next(t).Payload, protocol.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestMembersTalkOnTheChannel(t *testing.T) {
	n := bridgetest.Start(t)
	one, two := n.Caller(t, "one"), n.Connect(t, "two")
	home(t, one, "one", "two")
	two.Listen(t, "aibridge/cap/home/message/#")
	one.Send(t, "aibridge/cap/home/message/kitchen/light", "anything at all")
	if p := two.Next(t); string(p.Payload) != "anything at all" {
		t.Errorf("got %s", p.Payload)
	}
}

// BenchmarkDataSetIsSeen measures from the request to the member's receipt, and
// a bare publish of the same size beside it.
func BenchmarkDataSetIsSeen(b *testing.B) {
	n := bridgetest.Start(b)
	one, two := n.Connect(b, "one"), n.Connect(b, "two")
	caller := n.Caller(b, "caller")
	home(b, caller, "one", "two")
	two.Listen(b, "aibridge/cap/home/data/#", "bare")
	measure := func(name string, send func(i int)) {
		b.Run(name, func(b *testing.B) {
			times := make([]time.Duration, 0, b.N)
			for i := 0; b.Loop(); i++ {
				began := time.Now()
				send(i)
				two.Next(b)
				times = append(times, time.Since(began))
			}
			b.ReportMetric(float64(percentile(times, 50).Microseconds()), "p50-µs")
			b.ReportMetric(float64(percentile(times, 99).Microseconds()), "p99-µs")
		})
	}
	measure("set", func(i int) {
		sendOnce(b, one, "aibridge/bridge/request", bridgetest.Request(protocol.NewID(), "group.data.set",
			fmt.Sprintf(`{"cap_id":"home","group_id":"all","data_key":"k","data_value":%d,"data_type":"number"}`, i)))
	})
	measure("bare", func(int) { sendOnce(b, one, "bare", strings.Repeat("x", 170)) })
}

// sendOnce publishes with QoS 0.
func sendOnce(t testing.TB, r *bridgetest.Raw, topic, payload string) {
	t.Helper()
	if _, err := r.Publish(t.Context(), &paho.Publish{Topic: topic, Payload: []byte(payload)}); err != nil {
		t.Fatal(err)
	}
}

func percentile(times []time.Duration, p int) time.Duration {
	slices.Sort(times)
	return times[(len(times)-1)*p/100]
}
