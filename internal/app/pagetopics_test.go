package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/coder/websocket"
	"github.com/eclipse/paho.golang/paho"
	"github.com/golang-jwt/jwt/v5"

	"github.com/aibridge/aibridge/internal/bridgetest"
)

// pageTopics opens MQTT over WebSocket at /mqtt of the HTTP address, with what the
// HTTP request shows.
func pageTopics(t *testing.T, n *bridgetest.Node, client *http.Client, scheme string, header http.Header) (*websocket.Conn, int, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
	defer cancel()
	ws, response, err := websocket.Dial(ctx, scheme+"://"+n.HTTP+"/mqtt", &websocket.DialOptions{HTTPClient: client, HTTPHeader: header, Subprotocols: []string{"mqtt"}})
	if err != nil {
		if response == nil {
			t.Fatal(err)
		}
		return nil, response.StatusCode, err
	}
	return ws, response.StatusCode, nil
}

// openPage opens it, and connects as a client.
func openPage(t *testing.T, n *bridgetest.Node, id string, header http.Header, change ...func(*paho.Connect)) (*bridgetest.Raw, error) {
	t.Helper()
	ws, _, err := pageTopics(t, n, bridgetest.HTTPClient(t), "ws", header)
	if err != nil {
		t.Fatal(err)
	}
	return bridgetest.ConnectOver(t, websocket.NetConn(t.Context(), ws, websocket.MessageBinary), id, change...)
}

// pageSession signs in to the console, and returns the cookie.
func pageSession(t *testing.T, n *bridgetest.Node, key string) string {
	t.Helper()
	body, _ := json.Marshal(map[string]string{"key": key})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.HTTPURL("/session"), bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := bridgetest.HTTPClient(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || len(response.Cookies()) != 1 {
		t.Fatalf("signing in: %d", response.StatusCode)
	}
	c := response.Cookies()[0]
	return c.Name + "=" + c.Value
}

func madeKey(t *testing.T, admin *bridgetest.Raw, params string) (key, id string) {
	t.Helper()
	made := must(t, admin, "key.create", params)
	return field(t, made, "key"), field(t, made, "key_id")
}

// TestTopicsAreHeardAsWhomTheRequestNames comes in over the HTTP port by every
// credential that an HTTP request can show. The client shows none of its own.
func TestTopicsAreHeardAsWhomTheRequestNames(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	agent, _ := madeKey(t, admin, `{"principal_id":"lamp","kind":"agent","roles":["end_agent"]}`)
	person, _ := madeKey(t, admin, `{"principal_id":"olga","kind":"operator","roles":["operator"]}`)
	token := sign(t, jwt.SigningMethodHS256, []byte(issuerSecret), claims("tom"))
	for name, tt := range map[string]struct {
		header         http.Header
		change         []func(*paho.Connect)
		principal, way string
	}{
		"a key":                        {http.Header{"X-Api-Key": {agent}}, nil, "lamp", "apikey"},
		"a person's key":               {http.Header{"Authorization": {"Bearer " + person}}, nil, "olga", "apikey"},
		"a token":                      {http.Header{"Authorization": {"Bearer " + token}}, nil, "tom", "jwt"},
		"the session of a page":        {http.Header{"Cookie": {pageSession(t, n, person)}, "Sec-Fetch-Site": {"same-origin"}}, nil, "olga", "apikey"},
		"a client with its own secret": {http.Header{"X-Api-Key": {person}}, []func(*paho.Connect){withPassword("apikey", agent)}, "lamp", "apikey"},
	} {
		id := fmt.Sprintf("%.8x", name)
		c, err := openPage(t, n, id, tt.header, tt.change...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := must(t, admin, "session.get", fmt.Sprintf(`{"client_id":%q}`, id))
		if who, way := field(t, got, "principal"), field(t, got, "method"); who != tt.principal || way != tt.way {
			t.Errorf("%s is %s by %s", name, who, way)
		}
		may := tt.principal == "lamp"
		answer, err := c.Publish(t.Context(), &paho.Publish{Topic: "aibridge/agent/lamp/response", QoS: 1, Payload: []byte(`{}`)})
		if allowed := err == nil && answer.ReasonCode < 0x80; may != allowed && tt.principal != "olga" {
			t.Errorf("%s publishes as the lamp: %v, %v", name, allowed, err)
		}
	}
	cert := issue(t, admin, "lighting")
	secure := bridgetest.HTTPClient(t)
	secure.Transport = &http.Transport{TLSClientConfig: n.TLS(t, cert), DisableKeepAlives: true}
	ws, _, err := pageTopics(t, n, secure, "wss", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bridgetest.ConnectOver(t, websocket.NetConn(t.Context(), ws, websocket.MessageBinary), "by-cert"); err != nil {
		t.Fatal(err)
	}
	if got := must(t, admin, "session.get", `{"client_id":"by-cert"}`); field(t, got, "principal") != "lighting" || field(t, got, "method") != "certificate" {
		t.Errorf("a certificate: %s", got)
	}
}

func TestNobodyHearsTopicsWhoseRequestNamesNobody(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	key, _ := madeKey(t, admin, `{"principal_id":"olga","kind":"operator","roles":["operator"]}`)
	cookie := pageSession(t, n, key)
	for name, tt := range map[string]struct {
		header http.Header
		want   int
	}{
		"nothing":                      {nil, http.StatusUnauthorized},
		"a wrong key":                  {http.Header{"X-Api-Key": {"abk_wrong"}}, http.StatusUnauthorized},
		"a session from another site":  {http.Header{"Cookie": {cookie}, "Sec-Fetch-Site": {"cross-site"}}, http.StatusUnauthorized},
		"a session from a neighbour":   {http.Header{"Cookie": {cookie}, "Sec-Fetch-Site": {"same-site"}, "Origin": {"http://127.0.0.1:1"}}, http.StatusForbidden},
		"a session that says nothing":  {http.Header{"Cookie": {cookie}}, http.StatusUnauthorized},
		"a key from another page":      {http.Header{"X-Api-Key": {key}, "Origin": {"http://evil.example"}}, http.StatusForbidden},
		"a session of nobody":          {http.Header{"Cookie": {"aibridge_session=AAAA"}, "Sec-Fetch-Site": {"same-origin"}}, http.StatusUnauthorized},
		"a wrong key beside a session": {http.Header{"Cookie": {cookie}, "Sec-Fetch-Site": {"same-origin"}, "X-Api-Key": {"abk_wrong"}}, http.StatusUnauthorized},
	} {
		if ws, status, err := pageTopics(t, n, bridgetest.HTTPClient(t), "ws", tt.header); err == nil || status != tt.want {
			t.Errorf("%s: %d, want %d", name, status, tt.want)
			if ws != nil {
				_ = ws.CloseNow()
			}
		}
	}
	if _, err := openPage(t, n, "liar", http.Header{"X-Api-Key": {key}}, withPassword("apikey", "abk_wrong")); err == nil {
		t.Error("a client with a wrong secret comes in as whom the request names")
	}
}

func TestTopicsEndWithTheCredentialOfTheRequest(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	key, id := madeKey(t, admin, `{"principal_id":"olga","kind":"operator","roles":["operator"]}`)
	byKey, err := openPage(t, n, "by-key", http.Header{"X-Api-Key": {key}})
	if err != nil {
		t.Fatal(err)
	}
	byPage, err := openPage(t, n, "by-page", http.Header{"Cookie": {pageSession(t, n, key)}, "Sec-Fetch-Site": {"same-origin"}})
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{"X-Api-Key": {key}}
	late, _, err := pageTopics(t, n, bridgetest.HTTPClient(t), "ws", header)
	if err != nil {
		t.Fatal(err)
	}
	must(t, admin, "key.revoke", fmt.Sprintf(`{"key_id":%q}`, id))
	for name, c := range map[string]*bridgetest.Raw{"by key": byKey, "by page": byPage} {
		if d := <-c.Dismissed; d.ReasonCode != 0x98 {
			t.Errorf("%s: told %#x", name, d.ReasonCode)
		}
	}
	if _, err := bridgetest.ConnectOver(t, websocket.NetConn(t.Context(), late, websocket.MessageBinary), "late"); err == nil {
		t.Error("a client comes in by a request whose key was revoked since")
	}
}

func TestTopicsOfAPageAreThoseOfItsSpace(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	clients := map[string]*bridgetest.Raw{}
	for _, space := range []string{"red", "blue"} {
		key, _ := madeKey(t, admin, fmt.Sprintf(`{"principal_id":"olga","kind":"operator","roles":["operator"],"space_id":%q}`, space))
		c, err := openPage(t, n, "page", http.Header{"X-Api-Key": {key}}) // of both the same
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "hall/#", QoS: 1}}}); err != nil {
			t.Fatal(err)
		}
		clients[space] = c
	}
	for _, space := range []string{"red", "blue"} { // each hears its own alone, and in the order in which it was said
		for _, word := range []string{"one", "two"} {
			if _, err := clients[space].Publish(t.Context(), &paho.Publish{Topic: "hall/light", QoS: 1, Payload: []byte(space + " " + word)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for space, c := range clients {
		for _, word := range []string{"one", "two"} {
			if m := <-c.Received; string(m.Payload) != space+" "+word {
				t.Errorf("%s hears %q", space, m.Payload)
			}
		}
	}
}

func TestUnderDevAPageHearsTopicsWithoutACredential(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	if _, err := openPage(t, n, "page", nil); err != nil {
		t.Fatal(err)
	}
	if response, err := bridgetest.HTTPClient(t).Get(n.HTTPURL("/mqtt")); err != nil || response.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("without WebSocket: %v %v", response, err)
	} else {
		_ = response.Body.Close()
	}
}
