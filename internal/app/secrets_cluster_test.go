package app_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

// ownSecrets configures a bridge with a data folder of its own.
func ownSecrets(t *testing.T, url, id string) app.Config {
	t.Helper()
	config := app.DefaultConfig()
	config.Data, config.Dev = t.TempDir(), true
	config.HTTP, config.MQTT.Address, config.WS, config.MQTTS = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "off"
	beside(t, url, id, nil)(&config)
	return config
}

// TestOfBridgesWithSecretsOfTheirOwnOneStarts starts three at once on a NATS that is new.
func TestOfBridgesWithSecretsOfTheirOwnOneStarts(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	var starting sync.WaitGroup
	bridges, errs := make([]*app.App, 3), make([]error, 3)
	ctx, stop := context.WithCancel(context.Background())
	for i, id := range []string{"a", "b", "c"} {
		config := ownSecrets(t, url, id)
		starting.Go(func() { bridges[i], errs[i] = app.New(ctx, config) })
	}
	starting.Wait()
	started := 0
	for i, bridge := range bridges {
		if errs[i] == nil {
			started++
			done := make(chan error, 1)
			go func() { done <- bridge.Run(ctx) }()
			defer func() {
				stop()
				if err := <-done; err != nil {
					t.Errorf("it ended with %v", err)
				}
			}()
			continue
		}
		for _, word := range []string{"pepper", "copy ca.key, pepper, seal.key from that bridge"} {
			if protocol.CodeOf(errs[i]) != protocol.StoreUnavailable || !strings.Contains(errs[i].Error(), word) {
				t.Errorf("%q lacks %q", errs[i], word)
			}
		}
	}
	if started != 1 {
		t.Errorf("%d start: %v", started, errs)
	}
	stop()
}

// TestABridgeWithOtherSecretsDoesNotStartAlone starts bridges on the state of a cluster
// of which none runs any more: one with a folder of its own, the former one, whose key
// file was rotated, and one that is to go on with new secrets.
func TestABridgeWithOtherSecretsDoesNotStartAlone(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	a := together(t, url, "a", nil)
	c := a.Caller(t, "caller")
	know(t, c, 1)
	must(t, c, "secret.rotate", `{"secret":"seal_key"}`)
	a.Stop(t)
	stranger := ownSecrets(t, url, "b")
	err := refused(t, func(c *app.Config) { *c = stranger })
	for _, word := range []string{"ca.key, pepper, seal.key in the data folder differ", `copy them from bridge "a"`, "accept_loss"} {
		if !strings.Contains(err, word) {
			t.Errorf("%q lacks %q", err, word)
		}
	}
	a.Restart(t)
	must(t, a.Caller(t, "caller"), "cap.query", `{}`)
	a.Stop(t)
	stranger.AcceptLoss = true
	anew := bridgetest.Start(t, func(c *app.Config) { *c = stranger })
	know(t, anew.Caller(t, "caller"), 1)
}
