package app_test

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

// TestTheNextProcessKnowsWhatWasInvoked holds for every place where claims
// are kept.
func TestTheNextProcessKnowsWhatWasInvoked(t *testing.T) {
	for name, test := range map[string]struct {
		configure func(t *testing.T) func(*app.Config)
	}{
		"embedded":         {func(*testing.T) func(*app.Config) { return func(*app.Config) {} }},
		"embedded, synced": {func(*testing.T) func(*app.Config) { return func(c *app.Config) { c.Sync = "always" } }},
		"external NATS": {func(t *testing.T) func(*app.Config) {
			url := startNATS(t)
			return func(c *app.Config) { c.NATS.URL = url }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := bridgetest.Start(t, test.configure(t))
			device := n.Device(t, "lamp-1", "lamp", `["switch"]`)
			caller := n.Caller(t, "caller")
			invoke := bridgetest.Request("1", "skill.invoke", invokeLamp)
			caller.Send(t, "aibridge/bridge/request", invoke)
			device.Reply(t, "lamp-1", device.Invocation(t), map[string]bool{"on": true})
			if answer := caller.Answer(t); answer.Err != nil {
				t.Fatal(answer.Err)
			}
			n.Restart(t)
			if answer := n.Caller(t, "caller").Ask(t, invoke); answer.Err == nil || answer.Err.Code != protocol.OutcomeUnknown {
				t.Errorf("the repeat gets %v, want 4012", answer.Err)
			}
		})
	}
}

// startNATS runs a NATS server with JetStream, until the test ends.
func startNATS(t testing.TB, change ...func(*server.Options)) (url string) {
	t.Helper()
	options := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()}
	for _, f := range change {
		f(options)
	}
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(bridgetest.Patience) {
		t.Fatal("NATS does not come up")
	}
	return s.ClientURL()
}
