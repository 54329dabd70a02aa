package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/eclipse/paho.golang/paho"
	"github.com/golang-jwt/jwt/v5"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// holder is somebody who came in with a token, by every door.
type holder struct {
	text   string
	mqtt   *bridgetest.Raw
	socket *websocket.Conn
}

func hold(t *testing.T, n *bridgetest.Node, id, subject string, more ...any) *holder {
	t.Helper()
	c := claims(subject, more...)
	if c["iat"] == nil {
		delete(c, "iat")
	}
	h := &holder{text: sign(t, jwt.SigningMethodHS256, []byte(issuerSecret), c)}
	h.mqtt = n.Caller(t, id, withPassword("jwt", h.text))
	if answer := h.mqtt.Ask(t, bridgetest.Request(protocol.NewID(), "agent.list", `{}`)); answer.Err != nil {
		t.Fatalf("%s: %v", id, answer.Err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Patience)
	defer cancel()
	var err error
	h.socket, _, err = websocket.Dial(ctx, "ws://"+n.WS+"/ws", &websocket.DialOptions{
		HTTPClient: bridgetest.HTTPClient(t), HTTPHeader: http.Header{"Authorization": {"Bearer " + h.text}}})
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	t.Cleanup(func() { _ = h.socket.CloseNow() })
	return h
}

// in reports whether the token lets somebody in, over HTTP and MQTT.
func (h *holder) in(t *testing.T, n *bridgetest.Node) bool {
	t.Helper()
	status, _ := post(t, n.HTTPURL("/api/v1/commands/agent.list"), `{}`, "Authorization", "Bearer "+h.text)
	raw, err := n.TryConnect(t, "again", withPassword("jwt", h.text))
	if err == nil {
		raw.Drop()
	}
	if (status == http.StatusOK) != (err == nil) {
		t.Errorf("HTTP says %d, MQTT %v", status, err)
	}
	return err == nil
}

// ended waits until the connections are gone, with the reasons that tell why.
func (h *holder) ended(t *testing.T) {
	t.Helper()
	if d := dismissed(t, h.mqtt); d.ReasonCode != 0x98 {
		t.Errorf("MQTT ended with %#x", d.ReasonCode)
	}
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Patience)
	defer cancel()
	if _, _, err := h.socket.Read(ctx); websocket.CloseStatus(err) != websocket.StatusPolicyViolation || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("/ws ended with %v", err)
	}
}

func TestARevokedTokenIsOfNoMoreUse(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t, func(c *app.Config) {
		for i := range c.Tokens.Issuers {
			c.Tokens.Issuers[i].RequireIAT = true
		}
	})
	lost := hold(t, n, "lost", "alice", "jti", "lost-1")
	odd := hold(t, n, "odd", "carol", "jti", "urn:x/with a slash + more")
	kept := hold(t, n, "kept", "alice", "jti", "kept-1")

	must(t, admin, "token.revoke", `{"token_id":"lost-1","reason":"laptop was stolen"}`)
	lost.ended(t)
	if lost.in(t, n) {
		t.Error("a revoked token lets somebody in")
	}
	must(t, admin, "token.revoke", `{"token_id":"urn:x/with a slash + more","issuer":"hs"}`)
	odd.ended(t)
	if answer := kept.mqtt.Ask(t, bridgetest.Request(protocol.NewID(), "agent.list", `{}`)); answer.Err != nil || !kept.in(t, n) {
		t.Errorf("another token of the same principal: %v", answer.Err)
	}

	// It is remembered over a restart, and recorded.
	n.Restart(t)
	admin = n.Caller(t, "admin", withPassword("apikey", adminKey(t, n)))
	if lost.in(t, n) || !kept.in(t, n) {
		t.Error("after a restart it is otherwise")
	}
	var list struct {
		Revoked []struct {
			Token  string `json:"token_id"`
			Reason string `json:"reason"`
			At     int64  `json:"revoked_at"`
			Until  int64  `json:"forgotten_at"`
		} `json:"revoked"`
		Total int `json:"total"`
	}
	if err := json.Unmarshal(must(t, admin, "token.list", `{}`), &list); err != nil || list.Total != 2 {
		t.Fatalf("listed %+v, %v", list, err)
	}
	for _, r := range list.Revoked {
		if life := time.UnixMilli(r.Until).Sub(time.UnixMilli(r.At)); life < 24*time.Hour || life > 25*time.Hour {
			t.Errorf("%s is forgotten after %v", r.Token, life)
		}
	}
	if found := must(t, admin, "audit.query", `{"event":"token.revoked"}`); !strings.Contains(string(found), "laptop was stolen") || strings.Contains(string(found), lost.text) {
		t.Errorf("recorded %s", found)
	}
}

// TestARevokedTokenLeavesNoWill has two clients leave Wills: one loses its token
// and then the other its connection. Wills are published in that order.
func TestARevokedTokenLeavesNoWill(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	watcher := n.Connect(t, "watcher", withPassword("apikey", adminKey(t, n)))
	watcher.Listen(t, "alarm/#")
	leaving := func(topic string) func(*paho.Connect) {
		return func(c *paho.Connect) {
			c.WillMessage = &paho.WillMessage{Topic: topic, Payload: []byte("gone")}
		}
	}
	token := sign(t, jwt.SigningMethodHS256, []byte(issuerSecret), claims("alice", "jti", "lost-1"))
	lost := n.Connect(t, "lost", withPassword("jwt", token), leaving("alarm/lost"))
	other := n.Connect(t, "other", withPassword("apikey", adminKey(t, n)), leaving("alarm/other"))
	must(t, admin, "token.revoke", `{"token_id":"lost-1"}`)
	if d := dismissed(t, lost); d.ReasonCode != 0x98 {
		t.Errorf("ended with %#x", d.ReasonCode)
	}
	other.Drop()
	if p := watcher.Next(t); p.Topic != "alarm/other" {
		t.Errorf("the first Will is that of %s", p.Topic)
	}
}

func TestAllTokensOfAPrincipalAreRevokedUpToATime(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	now := time.Now()
	old := hold(t, n, "old", "alice", "iat", now.Add(-10*time.Minute).Unix())
	undated := hold(t, n, "undated", "alice", "iat", nil)
	recent := hold(t, n, "recent", "alice", "iat", now.Add(-time.Minute).Unix())
	other := hold(t, n, "other", "bob", "iat", now.Add(-10*time.Minute).Unix())

	must(t, admin, "token.revoke", fmt.Sprintf(`{"principal_id":"alice","issuer":"es","issued_before":%d}`, now.UnixMilli()))
	must(t, admin, "token.revoke", fmt.Sprintf(`{"principal_id":"alice","issued_before":%d}`, now.Add(-5*time.Minute).UnixMilli()))
	old.ended(t)
	undated.ended(t)
	for name, h := range map[string]*holder{"recent": recent, "other": other} {
		if answer := h.mqtt.Ask(t, bridgetest.Request(protocol.NewID(), "agent.list", `{}`)); answer.Err != nil || !h.in(t, n) {
			t.Errorf("%s: %v", name, answer.Err)
		}
	}
	if old.in(t, n) || undated.in(t, n) {
		t.Error("an older token lets somebody in")
	}
	// Said again with an earlier time it does not let the others in again.
	must(t, admin, "token.revoke", fmt.Sprintf(`{"principal_id":"alice","issued_before":%d}`, now.Add(-time.Hour).UnixMilli()))
	if old.in(t, n) {
		t.Error("a second revocation has undone the first")
	}
	must(t, admin, "token.revoke", `{"principal_id":"alice"}`)
	recent.ended(t)
}

func TestTokensAreRevokedByAdministratorsAlone(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	key := field(t, must(t, admin, "key.create", `{"principal_id":"olga","kind":"operator","roles":["operator"]}`), "key")
	operator := n.Caller(t, "olga", withPassword("apikey", key))
	for name, test := range map[string]struct {
		who    *bridgetest.Raw
		params string
		want   protocol.Code
	}{
		"an operator":          {operator, `{"token_id":"x"}`, protocol.PermissionDenied},
		"neither":              {admin, `{}`, protocol.InvalidParameter},
		"both":                 {admin, `{"token_id":"x","principal_id":"alice"}`, protocol.InvalidParameter},
		"a time for a token":   {admin, `{"token_id":"x","issued_before":1}`, protocol.InvalidParameter},
		"a time in the future": {admin, `{"principal_id":"alice","issued_before":4102444800000}`, protocol.InvalidParameter},
	} {
		if answer := test.who.Ask(t, bridgetest.Request(protocol.NewID(), "token.revoke", test.params)); protocol.CodeOf(errorOf(answer)) != test.want {
			t.Errorf("%s: %v, want %s", name, answer.Err, test.want)
		}
	}
	if answer := operator.Ask(t, bridgetest.Request(protocol.NewID(), "token.list", `{}`)); protocol.CodeOf(errorOf(answer)) != protocol.PermissionDenied {
		t.Errorf("an operator lists: %v", answer.Err)
	}
}
