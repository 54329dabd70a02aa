package http

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant/granttest"
)

func TestAnExpiredCredentialEndsTheSocket(t *testing.T) {
	t.Parallel()
	_, server := serve(t, Options{Grants: new(granttest.Authority), Authenticate: func(*http.Request) (*protocol.Principal, error) {
		return &protocol.Principal{ID: "ann", Expires: time.Now().Add(50 * time.Millisecond)}, nil
	}})
	if status := dial(t, server.URL).closed(); status != websocket.StatusPolicyViolation {
		t.Errorf("closed with %v", status)
	}
}

func TestARevokedCredentialEndsTheSocket(t *testing.T) {
	t.Parallel()
	var authority granttest.Authority
	_, server := serve(t, Options{Grants: &authority})
	p := dial(t, server.URL)
	p.send(envelope("first", "test.echo", "{}"))
	p.receive()
	authority.End("bob", protocol.Errorf(protocol.CredentialInvalid, "revoked"))
	p.send(envelope("second", "test.echo", "{}"))
	p.receive()
	authority.End("ann", protocol.Errorf(protocol.CredentialInvalid, "%s", strings.Repeat("é", 100))) // too long for a close frame
	if status := p.closed(); status != websocket.StatusPolicyViolation {
		t.Errorf("closed with %v", status)
	}
}
