package api

import (
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/protocol"
)

func TestAnExpiredCredentialEndsTheSocket(t *testing.T) {
	t.Parallel()
	_, server := serve(t, Options{Authenticate: func(*http.Request) (*protocol.Principal, error) {
		return &protocol.Principal{ID: "ann", Expires: time.Now().Add(50 * time.Millisecond)}, nil
	}})
	if status := dial(t, server.URL).closed(); status != websocket.StatusPolicyViolation {
		t.Errorf("closed with %v", status)
	}
}

func TestACredentialThatExpiredWhileTheMachineSleptIsOfNoMoreUse(t *testing.T) {
	t.Parallel()
	router, c := &scripted{}, clock.New()
	_, server := serve(t, Options{Router: router, Clock: c, Authenticate: func(*http.Request) (*protocol.Principal, error) {
		return &protocol.Principal{ID: "ann", Expires: c.Now().Add(time.Hour)}, nil
	}})
	p := dial(t, server.URL)
	p.send(envelope("in-time", "test.echo", "{}"))
	p.receive()
	c.Step(2 * time.Hour)
	p.send(envelope("late", "test.echo", "{}"))
	if status := p.closed(); status != websocket.StatusPolicyViolation {
		t.Errorf("closed with %v", status)
	}
	router.mu.Lock()
	defer router.mu.Unlock()
	if len(router.seen) != 1 {
		t.Errorf("%d commands were run, want the first alone", len(router.seen))
	}
}

func TestACredentialRevokedWhileItIsShownOpensNoSocket(t *testing.T) {
	t.Parallel()
	router := &scripted{}
	_, server := serve(t, Options{Router: router, Revoked: func(who *protocol.Principal) (string, bool) {
		return "revoked", who.ID == "ann"
	}})
	p := dial(t, server.URL)
	_ = p.conn.Write(p.ctx, websocket.MessageText, []byte(envelope("late", "test.echo", "{}"))) // it may be closed already
	if status := p.closed(); status != websocket.StatusPolicyViolation {
		t.Errorf("closed with %v", status)
	}
	router.mu.Lock()
	defer router.mu.Unlock()
	if len(router.seen) != 0 {
		t.Error("a command was run for it")
	}
}
