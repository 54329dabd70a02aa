//go:build linux

package bench

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/bubble"
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

// TestPacedCallersKeepTheirPace has calls that could not be made in time made up for,
// up to a second of them.
func TestPacedCallersKeepTheirPace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := webCaller{every: 10 * time.Millisecond}
		now := time.Now()
		if due := c.pace(now.Add(-100 * time.Millisecond)); !due.Equal(now.Add(-90 * time.Millisecond)) {
			t.Errorf("after a tenth of a second the next is due %v from then", due.Sub(now))
		}
		if due := c.pace(now.Add(-time.Hour)); due.Before(now) {
			t.Errorf("an hour is made up for: %v", due.Sub(now))
		}
		if due := c.pace(now.Add(20 * time.Millisecond)); time.Since(now) < 20*time.Millisecond || !due.Equal(now.Add(30*time.Millisecond)) {
			t.Error("it does not wait")
		}
		if due := (&webCaller{}).pace(now); !due.Equal(now) {
			t.Error("one without a pace waits")
		}
	})
}
