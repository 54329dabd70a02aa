//go:build linux

package bench

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

func TestQuestionsReachTheModelAndComeBack(t *testing.T) {
	model := inProcessIn(t, KindModel+":"+string(OverLLM), OverLLM, t.TempDir())
	node := bridgetest.Start(t, func(c *app.Config) {
		c.LLM.BaseURL, c.LLM.Model = "http://"+model.address.String()+"/v1", modelName
	})
	model.web, model.silent = model.address, true
	bridge := target{
		address: netip.MustParseAddrPort(node.Addresses.MQTT), version: version5, bridge: true, silent: true,
		web: netip.MustParseAddrPort(node.Addresses.HTTP),
	}
	for _, s := range queries(3, 512) {
		for name, at := range map[string]target{"the model": model, "the bridge": bridge} {
			got, err := measure(t.Context(), s, at, tiny(100))
			if err != nil || !got.Clean() || got.Received != 100 || got.P50 == 0 {
				t.Errorf("%s, %s: %+v %v", s.Name, name, got, err)
			}
		}
	}
}

func TestRefusedQuestionsAreReported(t *testing.T) {
	node := bridgetest.Start(t) // which has no model
	at := target{
		address: netip.MustParseAddrPort(node.Addresses.MQTT), version: version5, bridge: true, silent: true,
		web: netip.MustParseAddrPort(node.Addresses.HTTP),
	}
	got, err := measure(t.Context(), queries(1, 512)[0], at, tiny(10))
	if err != nil || got.Received != 0 || !strings.Contains(got.Err, string(protocol.LLMUnavailable)) {
		t.Errorf("%+v %v", got, err)
	}
}
