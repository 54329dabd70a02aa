//go:build linux

package bench

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/eventually"
)

// tiny are options for runs that prove something rather than measure it.
func tiny(messages int64) Options {
	return Options{Messages: messages, Duration: time.Minute, Patience: eventually.Patience}
}

// inProcess serves a linked broker in this process until the test ends.
func inProcess(t *testing.T, kind string) target {
	t.Helper()
	return inProcessIn(t, kind, OverTCP, t.TempDir())
}

func inProcessIn(t *testing.T, kind string, over Over, dir string) target {
	t.Helper()
	address, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := Serve(ctx, kind, address.String(), dir); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); serving.Wait() })
	b := &process{address: address, exited: make(chan struct{})}
	if err := b.awaitReady(t.Context(), over, version5); err != nil {
		t.Fatal(err)
	}
	return target{address: address, version: version5}
}

func TestEverythingArrives(t *testing.T) {
	at := inProcess(t, KindBroker)
	for _, s := range []Scenario{
		{Name: "fan-in", Shape: Flow, Publishers: 5, Subscribers: 1, Payload: 64, Window: 10, Batch: 1},
		{Name: "batches", Shape: Flow, Publishers: 5, Subscribers: 1, Payload: 64, Window: 10, Batch: 10},
		{Name: "fan-out", Shape: Flow, Publishers: 1, Subscribers: 5, Payload: 256, Window: 10, Batch: 1},
		{Name: "many to many", Shape: Flow, Publishers: 3, Subscribers: 3, Payload: 64, Window: 10, Batch: 1},
		{Name: "pairs, QoS 0", Shape: Flow, Publishers: 5, Subscribers: 5, Pairs: true, Payload: 256, Window: 5},
		{Name: "pairs, QoS 1", Shape: Flow, Publishers: 5, Subscribers: 5, Pairs: true, QoS: 1, Payload: 256, Window: 5},
		{Name: "pairs, QoS 2", Shape: Flow, Publishers: 5, Subscribers: 5, Pairs: true, QoS: 2, Payload: 256, Window: 5},
		{Name: "paced", Shape: Flow, Publishers: 5, Subscribers: 5, Pairs: true, QoS: 1, Payload: 256, Window: 5, Rate: 5000},
		{Name: "ask", Shape: Ask, Publishers: 5, QoS: 1, Payload: 512, Window: 1},
		{Name: "ask, window", Shape: Ask, Publishers: 5, QoS: 1, Payload: 512, Window: 4},
		{Name: "ask, paced", Shape: Ask, Publishers: 5, QoS: 1, Payload: 512, Window: 4, Rate: 5000},
	} {
		got, err := measure(t.Context(), s, at, tiny(300))
		if err != nil {
			t.Fatal(err)
		}
		copies := int64(1)
		if s.Shape == Flow && !s.Pairs {
			copies = int64(s.Subscribers)
		}
		if !got.Clean() || got.Sent != 300 || got.Received != 300*copies || got.Rate <= 0 || got.P50 <= 0 || got.P99 < got.P50 {
			t.Errorf("%s: %+v", s.Name, got)
		}
	}
}

// TestOtherTransportsCarry the same, and packets larger than a record or a short frame.
func TestOtherTransportsCarry(t *testing.T) {
	for _, over := range []Over{OverTLS, OverWebSocket} {
		t.Run(string(over), func(t *testing.T) {
			dir := t.TempDir()
			if err := writeCertificate(dir); err != nil {
				t.Fatal(err)
			}
			at := inProcessIn(t, KindBroker+":"+string(over), over, dir)
			for _, s := range []Scenario{
				{Name: "pairs", Over: over, Shape: Flow, Publishers: 5, Subscribers: 5, Pairs: true, QoS: 1, Payload: 100, Window: 5},
				{Name: "large", Over: over, Shape: Flow, Publishers: 2, Subscribers: 2, Pairs: true, QoS: 1, Payload: 64 << 10, Window: 5},
				{Name: "ask", Over: over, Shape: Ask, Publishers: 5, QoS: 1, Payload: 512, Window: 1},
			} {
				got, err := measure(t.Context(), s, at, tiny(100))
				if err != nil || !got.Clean() || got.Received != 100 {
					t.Errorf("%s: %+v %v", s.Name, got, err)
				}
			}
		})
	}
}

func TestOnlyPeersOfATransportAreMeasured(t *testing.T) {
	for kind, want := range map[string]bool{KindBroker: true, KindMochi: true, KindNATS: false} {
		if p := Hosted(kind, "program"); p.serves(OverTLS) != want || !p.serves(OverTCP) {
			t.Errorf("%s serves TLS: %v", kind, p.serves(OverTLS))
		}
	}
}

func TestBrokerAnswersInside(t *testing.T) {
	t.Setenv(answerEnv, "1")
	for _, kind := range []string{KindBroker} {
		got, err := measure(t.Context(), askInside, inProcess(t, kind), tiny(300))
		if err != nil || !got.Clean() || got.Received != 300 {
			t.Errorf("%s: %+v %v", kind, got, err)
		}
	}
}

var askInside = Scenario{Name: "inside", Shape: AskInside, Publishers: 5, QoS: 1, Payload: 512, Window: 4}

func TestOnlyPeersThatAnswerAreAskedInside(t *testing.T) {
	mochi, nats := hosted(t, KindMochi), hosted(t, KindNATS)
	o := tiny(300)
	o.Peers, o.Scenarios, o.Rounds = []Peer{nats, mochi}, []Scenario{askInside}, 1
	report, err := MQTT(t.Context(), o)
	if err != nil || len(report.Results) != 1 || report.Results[0].Peer != KindMochi || report.Results[0].Received != 300 {
		t.Errorf("%+v %v", report.Results, err)
	}
}

func TestIdleClientsAreCounted(t *testing.T) {
	s := Scenario{Name: "idle", Shape: Idle, Subscribers: 200}
	o := tiny(0)
	o.Duration = 10 * time.Millisecond
	got, err := measure(t.Context(), s, inProcess(t, KindBroker), o)
	if err != nil || got.Err != "" || got.Received != 200 || got.Rate <= 0 {
		t.Errorf("%+v %v", got, err)
	}
}

func TestResponderKeepsToTheReceiveMaximum(t *testing.T) {
	t.Parallel()
	r := newResponder(Scenario{Publishers: 1, Payload: 128, QoS: 1}, version5)
	c := &conn{version: version5, receiveMaximum: 2, stage: established}
	question := publishTemplate(version5, askPrefix+"0", 1, nil, newQuestion(128))
	const acks = 4 // bytes of a PUBACK
	for range 3 {
		r.packet(c, question.packet[0], question.packet[3:]) // a length of two bytes
	}
	reply := len(r.replies[0].packet)
	if len(c.out) != 3*acks+2*reply || len(r.waiting) != 1 {
		t.Fatalf("%d bytes out, %d waiting", len(c.out), len(r.waiting))
	}
	r.packet(c, packetPuback, []byte{0, 1})
	if len(c.out) != 3*acks+3*reply || len(r.waiting) != 0 {
		t.Errorf("afterwards %d bytes out, %d waiting", len(c.out), len(r.waiting))
	}
}

func TestProcessesAreMeasured(t *testing.T) {
	report, err := MQTT(t.Context(), Options{
		Peers:     []Peer{hosted(t, KindMochi), hosted(t, KindBroker)},
		Scenarios: []Scenario{{Name: "pairs", Shape: Flow, Publishers: 2, Subscribers: 2, Pairs: true, QoS: 1, Payload: 256, Window: 5}},
		Rounds:    2, Messages: 2000, Patience: eventually.Patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Results) != 4 {
		t.Fatalf("%d results", len(report.Results))
	}
	for i, r := range report.Results {
		if r.Received == 0 || r.Memory == 0 || r.Rate <= 0 || r.Round != i/2+1 {
			t.Errorf("%+v", r)
		}
	}
	if a, b := report.Results[0].Peer, report.Results[1].Peer; a != KindMochi || b != KindBroker {
		t.Errorf("measured %s, then %s", a, b)
	}
}

func TestProgramThatEndsIsReported(t *testing.T) {
	t.Parallel()
	p := Peer{Name: "none", Command: func(string, string) ([]string, error) {
		return []string{"/bin/sh", "-c", "echo no such luck; exit 1"}, nil
	}}
	_, err := MQTT(t.Context(), Options{Peers: []Peer{p}, Scenarios: Scenarios()[:1]})
	if err == nil || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("%v", err)
	}
}

func TestComparisonEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{
		Peers: []Peer{hosted(t, KindMochi)}, Scenarios: Scenarios()[:1], Duration: time.Minute,
		Progress: func(string) { t.Error("a run was finished") },
	}
	time.AfterFunc(300*time.Millisecond, cancel)
	if _, err := MQTT(ctx, o); err == nil {
		t.Error("no error")
	}
}

func TestSystemCallsAreCounted(t *testing.T) {
	const text = "rchar: 6976\nwchar: 0\nsyscr: 10\nsyscw: 32\nread_bytes: 7\n"
	if got := parseTransfers([]byte(text)); got != 42 {
		t.Errorf("%d", got)
	}
	before := transfersOf(os.Getpid())
	if before == 0 {
		t.Skip("the kernel does not count them")
	}
	for range 100 {
		if _, err := os.ReadFile("/proc/self/stat"); err != nil {
			t.Fatal(err)
		}
	}
	if got := transfersOf(os.Getpid()) - before; got < 100 {
		t.Errorf("%d reads of 100 are counted", got)
	}
}

func TestProcessorTimeIsReadBehindAnyName(t *testing.T) {
	t.Parallel()
	stat := []byte("12 (a) b (c) S 1 12 12 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 1 0 100 1000 10")
	if got := parseProcessorTime(stat); got != 3*time.Second {
		t.Errorf("%v", got)
	}
	for _, bad := range []string{"", "1 (x)", "1 (x) S 1 2 3 4 5 6 7 8 9 10 y z"} {
		if got := parseProcessorTime([]byte(bad)); got != 0 {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

func TestFreeAddressIsLoopback(t *testing.T) {
	t.Parallel()
	a, err := freeAddress()
	if err != nil || !a.Addr().IsLoopback() {
		t.Fatalf("%v %v", a, err)
	}
}
