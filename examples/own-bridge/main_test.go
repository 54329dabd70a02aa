package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aibridge/aibridge/bridge"
	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

// patience bounds every wait; nothing comes near it unless it fails.
const patience = time.Minute

// TestTheGreenhouseIsWatered calls the command as any client does, in the evening
// and at noon.
func TestTheGreenhouseIsWatered(t *testing.T) {
	for name, test := range map[string]struct {
		hour int
		want protocol.Code // "" for water
	}{
		"evening": {19, ""},
		"noon":    {12, protocol.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			c := greenhouse(t, time.Date(2026, 7, 1, test.hour, 0, 0, 0, time.Local))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			got, err := client.Call[waterResult](ctx, c, "greenhouse.water", waterParams{Bed: "tomatoes", Seconds: 30})
			var refused *protocol.Error
			switch {
			case test.want == "" && (err != nil || got != waterResult{"tomatoes", 6}):
				t.Errorf("got %+v, %v", got, err)
			case test.want != "" && (!errors.As(err, &refused) || refused.Code != test.want):
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// greenhouse runs a bridge until the test ends, and connects to it.
func greenhouse(t *testing.T, at time.Time) *client.Client {
	t.Helper()
	config := bridge.DefaultConfig()
	config.Data, config.Dev = t.TempDir(), true
	config.MQTT.Address, config.HTTP, config.WS = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	config.Log.Level = "error"
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, config, func() time.Time { return at }) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	dial, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := client.Dial(dial, "mqtt://"+listening(t, config.Data))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// listening waits until the bridge has written where it listens.
func listening(t *testing.T, data string) string {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		var found bridge.Addresses
		text, err := os.ReadFile(filepath.Join(data, "addresses.json"))
		if err == nil && json.Unmarshal(text, &found) == nil {
			return found.MQTT
		}
	}
	t.Fatal("the bridge does not listen")
	return ""
}
