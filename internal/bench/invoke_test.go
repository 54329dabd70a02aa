//go:build linux

package bench

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

func TestInvocationsReachTheAgentAndComeBack(t *testing.T) {
	node := bridgetest.Start(t)
	at := target{address: netip.MustParseAddrPort(node.Addresses.MQTT), version: version5, bridge: true}
	if err := enroll(t.Context(), node.Addresses.MQTT, 2); err != nil {
		t.Fatal(err)
	}
	for _, agents := range []int{1, 2} {
		for _, window := range []int{1, 8} {
			s := Scenario{Name: "invoke", Shape: Ask, Publishers: 2, Agents: agents, QoS: 1, Payload: 512, Window: window}
			got, err := measure(t.Context(), s, at, tiny(200))
			if err != nil || !got.Clean() || got.Received != 200 {
				t.Errorf("%d agents, window %d: %+v %v", agents, window, got, err)
			}
		}
	}
}

func TestRefusedInvocationsAreReported(t *testing.T) {
	node := bridgetest.Start(t)
	at := target{address: netip.MustParseAddrPort(node.Addresses.MQTT), version: version5, bridge: true}
	s := Scenario{Name: "invoke", Shape: Ask, Publishers: 1, QoS: 1, Payload: 512, Window: 1}
	got, err := measure(t.Context(), s, at, tiny(10)) // nobody has enrolled
	if err != nil || got.Received != 0 || !strings.Contains(got.Err, string(protocol.NotFound)) {
		t.Errorf("%+v %v", got, err)
	}
}

func TestCallerSendsRequestEnvelopes(t *testing.T) {
	t.Parallel()
	r := newCaller(&load{}, Scenario{QoS: 1, Payload: 512, Window: 1}, protocol.NewTopics(""), "caller", benchSkill, time.Now(), &histogram{})
	payload := r.t.packet[r.t.payload:]
	r.write(payload, 7, 1234)
	req, err := protocol.DecodeRequest(payload, protocol.Limits{})
	if err != nil {
		t.Fatalf("%s: %v", payload, err)
	}
	if len(payload) != 512 || req.Command != "skill.invoke" || req.ID != "0000000000000007"+"00000000000004d2" ||
		!bytes.Contains(req.Params, []byte(`"n":"0000000000000007"`)) {
		t.Errorf("%s", payload)
	}
	if age := time.Since(time.UnixMilli(req.Timestamp)); age < 0 || age > time.Minute {
		t.Errorf("timestamp is %v old", age)
	}
}

func TestAgentAnswersWithResponseEnvelopes(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 100, 512, 20_000} { // lengths of one, two and three bytes
		a := &agent{load: &load{}, name: benchAgent, topic: "t", size: size, start: time.Now()}
		packet := a.answer(&conn{loop: &loop{}, lastID: 0x0101}, []byte("some-id"), []byte("00000000000000ff"))
		length, n := readVarint(packet[1:])
		if n <= 0 || len(packet) != 1+n+length {
			t.Fatalf("size %d: a length of %d in %d bytes", size, length, len(packet))
		}
		p, ok := parsePublish(version5, packet[0], packet[1+n:])
		if !ok || p.id != 0x0102 || string(p.topic) != "t" || p.qos != 1 {
			t.Fatalf("size %d: %+v", size, p)
		}
		resp, err := protocol.DecodeResponse(p.payload, protocol.Limits{})
		if err != nil || resp.ID != "some-id" || resp.Err != nil || !bytes.Contains(resp.Result, []byte(`"n":"00000000000000ff"`)) {
			t.Errorf("size %d: %s %v", size, p.payload, err)
		}
		if size > 200 && len(p.payload) != size {
			t.Errorf("%d bytes, want %d", len(p.payload), size)
		}
	}
}

func TestAnswersAreLookedAt(t *testing.T) {
	t.Parallel()
	const good = `{"id":"000000000000000700000000000004d2","status":"success","result":{"data":{"n":"0000000000000007"}}}`
	for answer, want := range map[string]bool{
		good: true,
		strings.Replace(good, "success", "failed", 1):                              false,
		strings.Replace(good, `"n":"0000000000000007`, `"n":"0000000000000008`, 1): false,
		strings.Replace(good, "4d2", "4d", 1):                                      false,
		"":                                                                         false,
	} {
		l := &load{}
		number, sent, ok := readAnswer(l, []byte(answer))
		if ok != want || ok && (number != 7 || sent != 1234) {
			t.Errorf("%s: %d %d %v", answer, number, sent, ok)
		}
		if (l.complaint.Load() == nil) != want {
			t.Errorf("%s: complaint %v", answer, l.complaint.Load())
		}
	}
}

func TestInvokeOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]InvokeOptions{
		"no bridge":   {},
		"small calls": {Bridge: []string{"x"}, Payload: 100},
	} {
		if _, err := Invoke(t.Context(), o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	o := InvokeOptions{Bridge: []string{"aibridge", "serve"}, SyncAlways: true, Bare: []Peer{{Name: "m"}}}
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	peers := o.peers()
	if len(peers) != 3 || peers[0].Name != "m, bare" || o.Bare[0].Name != "m" {
		t.Errorf("peers %+v", peers)
	}
	argv, err := peers[2].Command("127.0.0.1:1", "/d")
	if err != nil || !strings.HasPrefix(strings.Join(argv, " "), "aibridge serve --dev --mqtt 127.0.0.1:1") || !strings.HasSuffix(strings.Join(argv, " "), "--data /d --log-level error --sync always") {
		t.Errorf("%v %v", argv, err)
	}
}

// BenchmarkInvoke is skill.invoke through a bridge in this process, for
// profiles: go test ./bench -run XXX -bench Invoke -cpuprofile cpu.out
func BenchmarkInvoke(b *testing.B) {
	node := bridgetest.Start(b)
	at := target{address: netip.MustParseAddrPort(node.Addresses.MQTT), version: version5, bridge: true}
	if err := enroll(b.Context(), node.Addresses.MQTT, 1); err != nil {
		b.Fatal(err)
	}
	s := Scenario{Name: "invoke", Shape: Ask, Publishers: 50, QoS: 1, Payload: 512, Window: 16}
	o := Options{Messages: int64(b.N), Duration: time.Minute, Patience: 10 * time.Second}
	b.ReportAllocs()
	b.ResetTimer()
	got, err := measure(b.Context(), s, at, o)
	if err != nil || !got.Clean() {
		b.Fatalf("%+v %v", got, err)
	}
	b.ReportMetric(got.Rate, "calls/s")
}
