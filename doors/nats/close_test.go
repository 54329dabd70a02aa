package nats

import (
	"context"
	"log/slog"
	"net/http"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// startNATS starts a NATS server, and connects a client to it, until the test ends.
func startNATS(t *testing.T) (*server.Server, *nats.Conn) {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(eventually.Patience) {
		t.Fatal("NATS does not start")
	}
	client, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return s, client
}

// A slowRouter answers when it is let.
type slowRouter struct{ begun, let chan struct{} }

func (r *slowRouter) Handle(_ context.Context, in commands.Inbound) *protocol.Response {
	r.begun <- struct{}{}
	<-r.let
	return &protocol.Response{Version: protocol.Version, ID: "r", Result: []byte(`{"done":true}`)}
}

// TestADoorThatClosesAnswersWhatItHasBegun closes the door while a request is under
// way, and lets the request end when nobody listens there any more.
func TestADoorThatClosesAnswersWhatItHasBegun(t *testing.T) {
	s, client := startNATS(t)
	router := &slowRouter{make(chan struct{}), make(chan struct{})}
	door, err := Open(Options{
		Settings: Settings{URL: s.ClientURL()}, Router: router, Dev: true, Root: "aibridge", BridgeID: "b", Log: slog.New(slog.DiscardHandler),
		Authenticate: func(context.Context, http.Header, string) (*protocol.Principal, error) {
			return &protocol.Principal{ID: "ann"}, nil
		},
		Offered: func(context.Context, *protocol.Principal, int) []Capability { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the door listens", func() bool {
		_, err = client.Request("$SRV.PING.aibridge", nil, eventually.Patience)
		return err == nil
	}, &err)
	answers, err := client.SubscribeSync(client.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	if err := client.PublishRequest("aibridge.bridge.request", answers.Subject, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	<-router.begun
	closed := make(chan error, 1)
	go func() { closed <- door.Close(context.Background()) }()
	eventually.Holds(t, "nobody listens", func() bool {
		_, err = client.Request("$SRV.PING.aibridge", nil, eventually.Patience)
		return err == nats.ErrNoResponders
	}, &err)
	if door.conn.IsDraining() || door.conn.IsClosed() {
		t.Error("the connection ends before the answer")
	}
	close(router.let)
	answer, err := answers.NextMsg(eventually.Patience / 10)
	if err != nil || len(answer.Data) == 0 {
		t.Errorf("the answer: %v, %v", answer, err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
