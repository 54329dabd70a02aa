package app_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
)

// TestABridgeSaysWhyNATSWillNotDo starts bridges on servers of NATS that cannot do
// what they need.
func TestABridgeSaysWhyNATSWillNotDo(t *testing.T) {
	t.Parallel()
	single := func(t *testing.T) string { return startNATS(t) }
	for name, test := range map[string]struct {
		nats   func(t *testing.T) (url string)
		change func(*app.Config)
		says   string // "" if it starts
	}{
		"one copy":                 {single, func(*app.Config) {}, ""},
		"three copies, one server": {single, func(c *app.Config) { c.NATS.Replicas = 3 }, "NATS cannot keep 3 copies of the state"},
		"three copies, one before": {func(t *testing.T) string {
			url := startNATS(t)
			bridgetest.Start(t, func(c *app.Config) { c.NATS.URL = url }).Stop(t)
			return url
		}, func(c *app.Config) { c.NATS.Replicas = 3 }, "NATS cannot keep 3 copies of the state"},
		"small messages": {func(t *testing.T) string {
			return startNATS(t, func(o *server.Options) { o.MaxPayload = 128 << 10 })
		}, func(c *app.Config) { c.Cluster.Working = "all" }, "NATS takes messages of up to 131072 bytes, and bridges that work together need 262144: raise max_payload"},
	} {
		t.Run(name, func(t *testing.T) {
			url := test.nats(t)
			change := func(c *app.Config) { c.NATS.URL = url; test.change(c) }
			if test.says == "" {
				bridgetest.Start(t, change)
				return
			}
			config := app.DefaultConfig()
			config.Data, config.Dev = t.TempDir(), true
			config.HTTP, config.MQTT.Address, config.WS, config.MQTTS = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "off"
			change(&config)
			if _, err := app.New(t.Context(), config); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("it starts with %v", err)
			}
		})
	}
}
