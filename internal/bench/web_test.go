//go:build linux

package bench

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

func webScenario(over Over) Scenario {
	return Scenario{Name: invokeName, Shape: Ask, Publishers: 3, QoS: 1, Payload: 512, Window: 1, Over: over}
}

func TestCallsOverHTTPReachTheAgentAndComeBack(t *testing.T) {
	node := bridgetest.Start(t)
	if err := enroll(t.Context(), node.Addresses.MQTT, 1); err != nil {
		t.Fatal(err)
	}
	at := target{
		address: netip.MustParseAddrPort(node.Addresses.MQTT), version: version5, bridge: true,
		web: netip.MustParseAddrPort(node.Addresses.HTTP),
	}
	for _, over := range []Over{OverHTTP, OverHTTP2, OverMCP} {
		got, err := measure(t.Context(), webScenario(over), at, tiny(100))
		if err != nil || !got.Clean() || got.Received != 100 || got.P50 == 0 {
			t.Errorf("%s: %+v %v", over, got, err)
		}
	}
}

func TestRefusedCallsOverHTTPAreReported(t *testing.T) {
	node := bridgetest.Start(t) // where nobody has enrolled
	at := target{
		address: netip.MustParseAddrPort(node.Addresses.MQTT), version: version5, bridge: true, silent: true,
		web: netip.MustParseAddrPort(node.Addresses.HTTP),
	}
	got, err := measure(t.Context(), webScenario(OverHTTP), at, tiny(10))
	if err != nil || got.Received != 0 || !strings.Contains(got.Err, string(protocol.NotFound)) {
		t.Errorf("%+v %v", got, err)
	}
}

func TestNetHTTPAloneAnswersCalls(t *testing.T) {
	for _, over := range []Over{OverHTTP, OverHTTP2, OverMCP} {
		dir := t.TempDir()
		if over == OverHTTP2 {
			if err := writeCertificate(dir); err != nil {
				t.Fatal(err)
			}
		}
		at := inProcessIn(t, KindHTTP+":"+string(over), over, dir)
		at.web, at.bridge, at.silent = at.address, true, true
		got, err := measure(t.Context(), webScenario(over), at, tiny(100))
		if err != nil || !got.Clean() || got.Received != 100 {
			t.Errorf("%s: %+v %v", over, got, err)
		}
	}
}
