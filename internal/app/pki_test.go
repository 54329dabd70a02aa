package app_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/listen"
	"github.com/aibridge/aibridge/protocol"
)

// routeAgent connects the holder of a certificate over TLS, has it provide the
// skill of its name and lead a scene.
func routeAgent(t *testing.T, n *bridgetest.Node, cert tls.Certificate, name string) *bridgetest.Raw {
	t.Helper()
	r := callerTLS(t, n, cert, name)
	for _, command := range [][2]string{
		{"agent.register", fmt.Sprintf(`{"agent_id":%q,"type":"route_agent"}`, name)},
		{"skill.register", fmt.Sprintf(`{"agent_id":%[1]q,"skill":{"skill_id":%[1]q,"name":"x","version":"1.0.0","type":"custom","capabilities":["switch"]}}`, name)},
		{"cap.declare", fmt.Sprintf(`{"cap_id":"home","cap_name":"Home","skill_id":%q}`, name)},
		{"scene.declare", fmt.Sprintf(`{"scene_type":"SMART_HOME","cap_id":"home","skill_id":%q,"skill_role":"agent_route","is_owner_declaration":true}`, name)},
	} {
		if answer := r.Ask(t, bridgetest.Request(protocol.NewID(), command[0], command[1])); answer.Err != nil {
			t.Fatalf("%s: %v", command[0], answer.Err)
		}
	}
	r.Listen(t, "aibridge/agent/"+name+"/request")
	return r
}

// serialIn is the serial of a certificate.
func serialIn(t *testing.T, cert tls.Certificate) string {
	t.Helper()
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%016x", leaf.SerialNumber)
}

func revoke(t *testing.T, admin *bridgetest.Raw, cert tls.Certificate) {
	t.Helper()
	params := fmt.Sprintf(`{"serial":%q,"reason":"the key was lost"}`, serialIn(t, cert))
	if answer := admin.Ask(t, bridgetest.Request(protocol.NewID(), "cert.revoke", params)); answer.Err != nil {
		t.Fatal(answer.Err)
	}
}

// dismissed waits for the bridge's DISCONNECT.
func dismissed(t *testing.T, r *bridgetest.Raw) *paho.Disconnect {
	t.Helper()
	select {
	case d := <-r.Dismissed:
		return d
	case <-time.After(bridgetest.Patience):
		t.Fatalf("%s is not disconnected", r.ID)
		return nil
	}
}

// sceneStatus is how the scene stands.
func sceneStatus(t *testing.T, admin *bridgetest.Raw) string {
	t.Helper()
	answer := admin.Ask(t, bridgetest.Request(protocol.NewID(), "scene.query", `{"scene_type":"SMART_HOME"}`))
	var found struct {
		Scenes []struct {
			Status string `json:"status"`
		} `json:"scenes"`
	}
	if answer.Err != nil || json.Unmarshal(answer.Result, &found) != nil || len(found.Scenes) != 1 {
		t.Fatalf("scene.query: %s, %v", answer.Result, answer.Err)
	}
	return found.Scenes[0].Status
}

func agentStatus(t *testing.T, admin *bridgetest.Raw, agent string) string {
	t.Helper()
	answer := admin.Ask(t, bridgetest.Request(protocol.NewID(), "agent.get", fmt.Sprintf(`{"agent_id":%q}`, agent)))
	if answer.Err != nil {
		t.Fatal(answer.Err)
	}
	return field(t, answer.Result, "status")
}

// TestARevocationBitesEverythingThatStoodOnTheCertificate takes a certificate
// back while it is used in every way there is.
func TestARevocationBitesEverythingThatStoodOnTheCertificate(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	cert := issue(t, admin, "lighting")
	agent := routeAgent(t, n, cert, "lighting")
	if got := sceneStatus(t, admin); got != "active" {
		t.Fatalf("the scene is %s", got)
	}
	key := adminKey(t, n)
	observer, caller := n.Connect(t, "observer", withPassword("apikey", key)), n.Caller(t, "caller", withPassword("apikey", key))
	observer.Listen(t, "aibridge/agent/lighting/card")
	eventually.Holds(t, "the card says that the agent is online", func() bool { return bytes.Contains(observer.Next(t).Payload, []byte(`"online"`)) })

	ctx, cancel := context.WithTimeout(t.Context(), 2*bridgetest.Patience)
	defer cancel()
	socket, _, err := websocket.Dial(ctx, "wss://"+n.WS+"/ws", &websocket.DialOptions{HTTPClient: httpsClient(t, n.TLS(t, cert))})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.CloseNow()
	if status, _ := askHTTP(t, httpsClient(t, n.TLS(t, cert)), "https://"+n.HTTP+"/api/v1/commands/skill.discover"); status != http.StatusOK {
		t.Fatalf("over HTTP: %d", status)
	}
	caller.Send(t, "aibridge/bridge/request", bridgetest.Request("to-it", "skill.invoke", `{"skill_id":"lighting","capability_id":"switch"}`))
	agent.Invocation(t) // which it does not answer

	began := time.Now()
	revoke(t, admin, cert)
	d := dismissed(t, agent)
	t.Logf("disconnected %v after the command was sent", time.Since(began))
	if d.ReasonCode != 0x98 || d.Properties == nil || !strings.Contains(d.Properties.ReasonString, "the key was lost") {
		t.Errorf("disconnected with %#x, %+v", d.ReasonCode, d.Properties)
	}
	if answer := caller.Answer(t); answer.Err == nil || answer.Err.Code != protocol.CertificateRevoked {
		t.Errorf("what was in flight to it is answered %s, %v", answer.Result, answer.Err)
	}
	eventually.Holds(t, "the card is withdrawn", func() bool { return len(observer.Next(t).Payload) == 0 })
	if _, _, err := socket.Read(ctx); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("the socket ended with %v", err)
	}
	eventually.Holds(t, "the scene is suspended", func() bool { return sceneStatus(t, admin) == "suspended" })
	if got := agentStatus(t, admin, "lighting"); got != "suspended" {
		t.Errorf("the agent is %s", got)
	}
	if r, err := n.TryConnectTLS(t, n.TLS(t, cert), "lighting"); err == nil {
		t.Errorf("let in again: %v", r.Connack)
	}
	if response, err := httpsClient(t, n.TLS(t, cert)).Get("https://" + n.HTTP + "/readyz"); err == nil {
		response.Body.Close()
		t.Errorf("HTTP answers %s", response.Status)
	}

	restart(t, n) // nor does a restart forget
	admin = n.Caller(t, "admin", withPassword("apikey", key))
	if got := agentStatus(t, admin, "lighting"); got != "suspended" {
		t.Errorf("after a restart the agent is %s", got)
	}
	routeAgent(t, n, issue(t, admin, "lighting"), "lighting") // reinstating is a new certificate
	if got := agentStatus(t, admin, "lighting"); got != "online" {
		t.Errorf("with a new certificate the agent is %s", got)
	}
	eventually.Holds(t, "the scene is active again", func() bool { return sceneStatus(t, admin) == "active" })
}

// TestWorkOfTheHolderFailsWithItsCertificate has the holder wait for another.
func TestWorkOfTheHolderFailsWithItsCertificate(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	key := adminKey(t, n)
	n.Device(t, "slow", "slow", `["wait"]`, withPassword("apikey", key))
	cert := issue(t, admin, "lighting")
	ctx, cancel := context.WithTimeout(t.Context(), 2*bridgetest.Patience)
	defer cancel()
	answered := make(chan protocol.Code, 1)
	go func() {
		request, _ := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+n.HTTP+"/api/v1/commands/skill.invoke",
			strings.NewReader(`{"skill_id":"slow","capability_id":"wait"}`))
		request.Header.Set("Content-Type", "application/json")
		response, err := httpsClient(t, n.TLS(t, cert)).Do(request)
		if err != nil {
			answered <- ""
			return
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		if r, err := protocol.DecodeResponse(body, protocol.Limits{}); err == nil && r.Err != nil {
			answered <- r.Err.Code
			return
		}
		answered <- protocol.Code(body)
	}()
	eventually.Holds(t, "the call is in flight", func() bool { return metric(t, n, "aibridge_commands_in_flight ") == "1" })
	revoke(t, admin, cert)
	if code := <-answered; code != protocol.CertificateRevoked {
		t.Errorf("answered %s", code)
	}
}

// metric is the value of the metric whose line has the prefix.
func metric(t *testing.T, n *bridgetest.Node, prefix string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.HTTPURL("/metrics"), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-API-Key", adminKey(t, n))
	response, err := bridgetest.HTTPClient(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func adminKey(t testing.TB, n *bridgetest.Node) string {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(n.Config.Data, app.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(key))
}

func TestExpiryEndsConnections(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	var cert tls.Certificate
	var r *bridgetest.Raw
	inTime(t, func(life time.Duration) (err error) {
		cert = issueWith(t, admin, map[string]any{"agent_id": "lamp", "validity_seconds": int(life.Seconds())})
		r, err = n.TryConnectTLS(t, n.TLS(t, cert), "lamp")
		return err
	})
	if d := dismissed(t, r); d.ReasonCode != 0x87 {
		t.Errorf("disconnected with %#x", d.ReasonCode)
	}
	if _, err := n.TryConnectTLS(t, n.TLS(t, cert), "lamp"); err == nil {
		t.Error("let in again")
	}
}

// issueWith has a certificate issued for a key made here.
func issueWith(t *testing.T, admin *bridgetest.Raw, params map[string]any) tls.Certificate {
	t.Helper()
	key := newKey(t)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	params["authority"], params["csr"] = "operator", string(pemOf("CERTIFICATE REQUEST", csr))
	text, _ := json.Marshal(params)
	answer := admin.Ask(t, bridgetest.Request(protocol.NewID(), "cert.issue", string(text)))
	if answer.Err != nil {
		t.Fatal(answer.Err)
	}
	return pairOf(t, answer.Result, key)
}

// TestARevocationHoldsAtTheBridgeThatTakesOver has two bridges share their
// state, one after the other.
func TestARevocationHoldsAtTheBridgeThatTakesOver(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	shared := func(c *app.Config) { c.NATS.URL = url }
	one, admin, _ := guarded(t, shared)
	sealed, err := os.ReadFile(filepath.Join(one.Config.Data, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	revoked, good := issue(t, admin, "lighting"), issue(t, admin, "heating")
	connected := callerTLS(t, one, revoked, "lighting")
	revoke(t, admin, revoked)
	if d := dismissed(t, connected); d.ReasonCode != 0x98 {
		t.Errorf("disconnected with %#x", d.ReasonCode)
	}
	one.Stop(t)
	two, _, _ := guarded(t, shared, func(c *app.Config) {
		c.ID = "two"
		if err := os.WriteFile(filepath.Join(c.Data, "ca.key"), sealed, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := two.TryConnectTLS(t, two.TLS(t, revoked), "lighting"); err == nil {
		t.Error("let in by the bridge that took over")
	}
	callerTLS(t, two, good, "heating").Listen(t, "aibridge/agent/heating/request")
}

func TestWithoutItsKeyFileABridgeKnowsCertificatesAndIssuesNone(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	cert := issue(t, admin, "lighting")
	if err := os.Remove(filepath.Join(n.Config.Data, "ca.key")); err != nil {
		t.Fatal(err)
	}
	restart(t, n)
	admin = n.Caller(t, "admin", withPassword("apikey", adminKey(t, n)))
	answer := admin.Ask(t, bridgetest.Request("1", "cert.get", fmt.Sprintf(`{"serial":%q}`, serialIn(t, cert))))
	if answer.Err != nil || field(t, answer.Result, "status") != "valid" {
		t.Errorf("%s, %v", answer.Result, answer.Err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	params, _ := json.Marshal(map[string]any{"authority": "operator", "skill_id": "x", "csr": string(pemOf("CERTIFICATE REQUEST", csr))})
	if answer := admin.Ask(t, bridgetest.Request("2", "cert.issue", string(params))); answer.Err == nil || answer.Err.Code != protocol.InvalidState {
		t.Errorf("%s, %v", answer.Result, answer.Err)
	}
}

func TestListsAndRootArePublicAndDevicesEnrolThemselves(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	cert := issue(t, admin, "lighting")
	revoke(t, admin, cert)
	fetch := func(path string) []byte {
		t.Helper()
		response, err := bridgetest.HTTPClient(t).Get(n.HTTPURL(path))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %s, %v", path, response.Status, body, err)
		}
		return body
	}
	list, err := x509.ParseRevocationList(fetch("/pki/operator.crl"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(list.RevokedCertificateEntries, func(e x509.RevocationListEntry) bool {
		return fmt.Sprintf("%016x", e.SerialNumber) == serialIn(t, cert)
	}) {
		t.Error("the list does not name it")
	}
	root, err := os.ReadFile(filepath.Join(n.Config.Data, app.CAFile))
	if err != nil || !bytes.Equal(fetch("/pki/ca.pem"), root) {
		t.Errorf("two roots, %v", err)
	}

	answer := admin.Ask(t, bridgetest.Request("1", "cert.token.create", `{"authority":"operator","agent_id":"sensor"}`))
	if answer.Err != nil {
		t.Fatal(answer.Err)
	}
	key := newKey(t)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	claim, _ := json.Marshal(map[string]string{"token": field(t, answer.Result, "token"), "csr": string(pemOf("CERTIFICATE REQUEST", csr))})
	if status, body := post(t, n.HTTPURL("/pki/enroll"), string(claim), "Origin", "http://evil.example"); status != http.StatusForbidden {
		t.Errorf("a page of another site: %d %s", status, body)
	}
	status, body := post(t, n.HTTPURL("/pki/enroll"), string(claim))
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	callerTLS(t, n, pairOf(t, body, key), "sensor")
	if status, _ := post(t, n.HTTPURL("/pki/enroll"), string(claim)); status != http.StatusUnauthorized {
		t.Errorf("claimed twice: %d", status)
	}
}

// pairOf is the certificate of an answer, with its key.
func pairOf(t *testing.T, answer []byte, key crypto.Signer) tls.Certificate {
	t.Helper()
	var issued struct {
		Chain []string `json:"chain"`
	}
	if err := json.Unmarshal(answer, &issued); err != nil || len(issued.Chain) != 3 {
		t.Fatalf("%s: %v", answer, err)
	}
	pair := tls.Certificate{PrivateKey: key}
	for _, text := range issued.Chain[:2] {
		block, _ := pem.Decode([]byte(text))
		pair.Certificate = append(pair.Certificate, block.Bytes)
	}
	return pair
}

// callerTLS connects the holder of a certificate, and listens for answers.
func callerTLS(t *testing.T, n *bridgetest.Node, cert tls.Certificate, id string) *bridgetest.Raw {
	t.Helper()
	r, err := n.TryConnectTLS(t, n.TLS(t, cert), id, func(c *paho.Connect) {
		c.Properties = &paho.ConnectProperties{RequestProblemInfo: true}
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Listen(t, "aibridge/client/"+id+"/response")
	return r
}

// restart starts the bridge again on the same data, at other addresses: the
// ones it had may be those of another test by then.
func restart(t *testing.T, n *bridgetest.Node) {
	t.Helper()
	const any = "127.0.0.1:0"
	n.Addresses = listen.Addresses{MQTT: any, HTTP: any, WS: any}
	n.Restart(t)
}

// TestAuthoritiesRotateWhileTheirHoldersAreConnected has a client of before and one of
// after a rotation at once, on listeners that were there all along.
func TestAuthoritiesRotateWhileTheirHoldersAreConnected(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	before := issue(t, admin, "lighting")
	agent := routeAgent(t, n, before, "lighting")
	answer := admin.Ask(t, bridgetest.Request(protocol.NewID(), "secret.rotate", `{"secret":"authorities"}`))
	if answer.Err != nil || field(t, answer.Result, "version") != "2" {
		t.Fatalf("rotated: %s, %v", answer.Result, answer.Err)
	}
	after := issue(t, admin, "heating")
	callerTLS(t, n, after, "heating")
	if bytes.Equal(before.Certificate[1], after.Certificate[1]) {
		t.Error("both are of the same authority")
	}
	for what, cert := range map[string]tls.Certificate{"before": before, "after": after} {
		if status, body := askHTTP(t, httpsClient(t, n.TLS(t, cert)), "https://"+n.HTTP+"/api/v1/commands/skill.discover"); status != http.StatusOK {
			t.Errorf("over HTTP with a certificate of %s: %d %s", what, status, body)
		}
	}
	caller := n.Caller(t, "caller", withPassword("apikey", adminKey(t, n)))
	caller.Send(t, "aibridge/bridge/request", bridgetest.Request("to-it", "skill.invoke", `{"skill_id":"lighting","capability_id":"switch"}`))
	agent.Invocation(t) // over the connection of before
	refused := admin.Ask(t, bridgetest.Request(protocol.NewID(), "secret.retire", `{"secret":"authorities","version":"1"}`))
	if protocol.CodeOf(refused.Err) != protocol.InvalidState {
		t.Errorf("retired while a certificate counts: %s, %v", refused.Result, refused.Err)
	}
}
