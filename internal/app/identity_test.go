package app_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/eclipse/paho.golang/paho"
	"github.com/golang-jwt/jwt/v5"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/token"
)

const issuerSecret = "0123456789abcdef0123456789abcdef"

// guarded is a bridge that trusts the tokens of two issuers, one with a secret
// and one with a key.
func guarded(t *testing.T, change ...func(*app.Config)) (n *bridgetest.Node, admin *bridgetest.Raw, issuerKey *ecdsa.PrivateKey) {
	t.Helper()
	issuerKey = newKey(t)
	der, err := x509.MarshalPKIXPublicKey(&issuerKey.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	roles := map[string]string{"admin": protocol.RoleAdministrator, "device": protocol.RoleEndAgent}
	n = bridgetest.Start(t, append([]func(*app.Config){func(c *app.Config) {
		c.Dev = false
		c.Tokens.Issuers = []token.Issuer{
			{Issuer: "hs", Secret: fileOf(t, []byte(issuerSecret)), RolesClaim: "roles", Roles: roles, ScopesClaim: "scope"},
			{Issuer: "es", Key: fileOf(t, pemOf("PUBLIC KEY", der)), RolesClaim: "roles", Roles: roles},
		}
	}}, change...)...)
	key, err := os.ReadFile(filepath.Join(n.Config.Data, app.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	if n.MQTT == "" {
		return n, nil, issuerKey
	}
	return n, n.Caller(t, "admin", withPassword("apikey", strings.TrimSpace(string(key)))), issuerKey
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func fileOf(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// issue has the bridge issue a certificate to a skill of the name.
func issue(t *testing.T, admin *bridgetest.Raw, name string) tls.Certificate {
	t.Helper()
	key := newKey(t)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	params, _ := json.Marshal(map[string]any{"authority": "operator", "agent_id": name, "skill_id": name, "role": "agent_route",
		"scene_types": []string{"SMART_HOME"}, "csr": string(pemOf("CERTIFICATE REQUEST", csr))})
	answer := admin.Ask(t, bridgetest.Request(protocol.NewID(), "cert.issue", string(params)))
	var issued struct {
		Chain []string `json:"chain"`
	}
	if answer.Err != nil || json.Unmarshal(answer.Result, &issued) != nil {
		t.Fatalf("cert.issue: %s, %v", answer.Result, answer.Err)
	}
	cert := tls.Certificate{PrivateKey: key}
	for _, text := range issued.Chain[:2] {
		block, _ := pem.Decode([]byte(text))
		cert.Certificate = append(cert.Certificate, block.Bytes)
	}
	return cert
}

func thumbprint(cert tls.Certificate) string {
	sum := sha256.Sum256(cert.Certificate[0])
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// claims are those of a token of issuer hs that is all right.
func claims(subject string, more ...any) jwt.MapClaims {
	now := time.Now()
	c := jwt.MapClaims{"iss": "hs", "sub": subject, "aud": "aibridge", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		"roles": []string{"device"}, "scope": "*"}
	for i := 0; i < len(more); i += 2 {
		c[more[i].(string)] = more[i+1]
	}
	return c
}

func sign(t testing.TB, method jwt.SigningMethod, key any, claims jwt.MapClaims, header ...string) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	for i := 0; i < len(header); i += 2 {
		token.Header[header[i]] = header[i+1]
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func hs(t testing.TB, subject string, more ...any) string {
	return sign(t, jwt.SigningMethodHS256, []byte(issuerSecret), claims(subject, more...))
}

// proof shows that its maker holds the key of a certificate.
func proof(t testing.TB, cert tls.Certificate, id string, more ...any) string {
	return sign(t, jwt.SigningMethodES256, cert.PrivateKey,
		claims(id, append([]any{"iss", id, "jti", protocol.NewID(), "exp", time.Now().Add(time.Minute).Unix()}, more...)...),
		"x5t#S256", thumbprint(cert))
}

// byMethod shows a secret by enhanced authentication.
func byMethod(method, secret string) func(*paho.Connect) {
	return func(c *paho.Connect) {
		c.Properties = &paho.ConnectProperties{AuthMethod: method, AuthData: []byte(secret), RequestProblemInfo: true}
	}
}

// whoIs is the principal that the bridge takes a client for.
func whoIs(t *testing.T, admin *bridgetest.Raw, clientID string) (principal, method string) {
	t.Helper()
	answer := admin.Ask(t, bridgetest.Request(protocol.NewID(), "session.get", fmt.Sprintf(`{"client_id":%q}`, clientID)))
	var s struct {
		Principal  string `json:"principal"`
		Method     string `json:"method"`
		Credential string `json:"credential"`
	}
	if answer.Err != nil || json.Unmarshal(answer.Result, &s) != nil || s.Credential == "" {
		t.Fatalf("session.get %s: %s, %v", clientID, answer.Result, answer.Err)
	}
	return s.Principal, s.Method
}

// httpsClient asks over TLS.
func httpsClient(t testing.TB, config *tls.Config) *http.Client {
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: bridgetest.Patience}
}

// askHTTP posts {} to a command and returns the status and the error code.
func askHTTP(t testing.TB, c *http.Client, url string, header ...string) (status int, code protocol.Code) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	response, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var body struct {
		Error struct {
			Code protocol.Code `json:"code"`
		} `json:"error"`
	}
	_ = json.NewDecoder(response.Body).Decode(&body)
	return response.StatusCode, body.Error.Code
}

func TestEveryWayInLeadsToOneIdentity(t *testing.T) {
	t.Parallel()
	n, admin, issuerKey := guarded(t)
	cert := issue(t, admin, "lamp")
	var created struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal(must(t, admin, "key.create", `{"principal_id":"lamp"}`), &created); err != nil {
		t.Fatal(err)
	}
	es := sign(t, jwt.SigningMethodES256, issuerKey, claims("lamp", "iss", "es"))
	bound := hs(t, "gardener", "cnf", map[string]string{"x5t#S256": thumbprint(cert)})
	plain, mutual := n.TLS(t), n.TLS(t, cert)
	for name, test := range map[string]struct {
		tls        *tls.Config // nil: without
		change     func(*paho.Connect)
		id, method string
	}{
		"certificate":                 {mutual, func(*paho.Connect) {}, "lamp", "certificate"},
		"certificate, user name":      {mutual, withPassword("lamp", ""), "lamp", "certificate"},
		"key":                         {plain, withPassword("apikey", created.Key), "lamp", "apikey"},
		"key, any user name":          {nil, withPassword("lamp", created.Key), "lamp", "apikey"},
		"key by method":               {plain, byMethod("APIKEY", created.Key), "lamp", "apikey"},
		"key and certificate":         {mutual, withPassword("apikey", created.Key), "lamp", "apikey"},
		"token":                       {nil, withPassword("jwt", hs(t, "lamp")), "lamp", "jwt"},
		"token, ES256":                {plain, withPassword("jwt", es), "lamp", "jwt"},
		"token by method":             {plain, byMethod("JWT", es), "lamp", "jwt"},
		"token bound to certificate":  {mutual, withPassword("jwt", bound), "gardener", "jwt"},
		"token signed by certificate": {nil, withPassword("jwt", proof(t, cert, "lamp")), "lamp", "jwt"},
		"the same, in full":           {plain, byMethod("JWT", proof(t, cert, "aibridge:agent/lamp")), "lamp", "jwt"},
	} {
		id := "client-" + strings.ReplaceAll(name, " ", "-")
		connect := func() (*bridgetest.Raw, error) { return n.TryConnect(t, id, test.change) }
		if test.tls != nil {
			connect = func() (*bridgetest.Raw, error) { return n.TryConnectTLS(t, test.tls, id, test.change) }
		}
		r, err := connect()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if who, method := whoIs(t, admin, id); who != test.id || method != test.method {
			t.Errorf("%s: is %s by %s", name, who, method)
		}
		r.Drop()
	}
	web, https := "https://"+n.HTTP+"/api/v1/commands/agent.list", httpsClient(t, plain)
	for name, header := range map[string][]string{
		"key": {"X-API-Key", created.Key}, "bearer key": {"Authorization", "Bearer " + created.Key},
		"token": {"Authorization", "Bearer " + es}, "proof": {"Authorization", "Bearer " + proof(t, cert, "lamp")},
	} {
		if status, code := askHTTP(t, https, web, header...); status != http.StatusOK {
			t.Errorf("HTTPS, %s: %d %s", name, status, code)
		}
	}
	if status, code := askHTTP(t, httpsClient(t, mutual), web); status != http.StatusOK {
		t.Errorf("HTTPS, certificate: %d %s", status, code)
	}
	c, _, err := websocket.Dial(t.Context(), "wss://"+n.WS+"/ws", &websocket.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{TLSClientConfig: mutual}}})
	if err != nil {
		t.Fatalf("WebSocket, certificate: %v", err)
	}
	_ = c.CloseNow()
}

func TestBadTokensAreRefusedAtEveryDoor(t *testing.T) {
	t.Parallel()
	n, admin, issuerKey := guarded(t)
	cert := issue(t, admin, "lamp")
	stolen := proof(t, cert, "lamp")
	if _, err := n.TryConnect(t, "lamp", withPassword("jwt", stolen)); err != nil {
		t.Fatal(err)
	}
	der, _ := x509.MarshalPKIXPublicKey(&issuerKey.PublicKey)
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	right := hs(t, "lamp")
	var wait sync.WaitGroup
	for name, text := range map[string]string{
		"forged":                   sign(t, jwt.SigningMethodHS256, []byte(strings.Repeat("x", 32)), claims("lamp")),
		"expired":                  hs(t, "lamp", "exp", in(-time.Minute)),
		"not valid yet":            hs(t, "lamp", "nbf", in(time.Hour)),
		"another audience":         hs(t, "lamp", "aud", "other"),
		"another issuer":           hs(t, "lamp", "iss", "other"),
		"alg none":                 sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims("lamp")),
		"the public key as secret": sign(t, jwt.SigningMethodHS256, pemOf("PUBLIC KEY", der), claims("lamp", "iss", "es")),
		"another's key":            sign(t, jwt.SigningMethodES256, newKey(t), claims("lamp", "iss", "es")),
		"truncated":                right[:len(right)-10],
		"replayed":                 stolen,
		"a proof for another":      proof(t, cert, "fan"),
		"bound, not held":          hs(t, "lamp", "cnf", map[string]string{"x5t#S256": thumbprint(cert)}),
		"the administrator":        hs(t, "administrator"),
	} {
		code, reason := protocol.CredentialInvalid, byte(0x86)
		if name == "bound, not held" {
			code, reason = protocol.ProofFailed, 0x87
		}
		wait.Go(func() {
			if status := refusedBy(n.TryConnect(t, "thief of "+name, withPassword("jwt", text))); status != reason {
				t.Errorf("%s: MQTT: %#x", name, status)
			}
		})
		wait.Go(func() {
			if _, got := askHTTP(t, bridgetest.HTTPClient(t), n.HTTPURL("/api/v1/commands/agent.list"), "Authorization", "Bearer "+text); got != code {
				t.Errorf("%s: HTTP: %s", name, got)
			}
		})
	}
	wait.Wait()
}

// refusedBy is the reason in CONNACK, 0 for none.
func refusedBy(r *bridgetest.Raw, err error) byte {
	if err == nil || r == nil || r.Connack == nil {
		return 0
	}
	return r.Connack.ReasonCode
}

func TestConnectionsOfTwoPartiesAtOnceAreRefused(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	lamp, fan := issue(t, admin, "lamp"), issue(t, admin, "fan")
	web := "https://" + n.HTTP + "/api/v1/commands/agent.list"
	bound := hs(t, "lamp", "cnf", map[string]string{"x5t#S256": thumbprint(lamp)})
	for name, test := range map[string]struct {
		cert tls.Certificate
		text string
		want protocol.Code
	}{
		"another's token":            {lamp, hs(t, "fan"), protocol.CredentialInvalid},
		"a token bound to another's": {fan, bound, protocol.ProofFailed},
		"a proof by another's":       {fan, proof(t, lamp, "lamp"), protocol.CredentialInvalid},
	} {
		if _, got := askHTTP(t, httpsClient(t, n.TLS(t, test.cert)), web, "Authorization", "Bearer "+test.text); got != test.want {
			t.Errorf("%s: %s", name, got)
		}
		if r, err := n.TryConnectTLS(t, n.TLS(t, test.cert), "x", withPassword("jwt", test.text)); err == nil {
			t.Errorf("%s: let in over MQTT", name)
			r.Drop()
		}
	}
}

func TestAStrangersCertificateOpensNothing(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	ours := issue(t, admin, "lamp")
	leaf, err := x509.ParseCertificate(ours.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	// The same names and the same serial, signed by somebody else.
	strangerKey, key := newKey(t), newKey(t)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: leaf.Issuer.CommonName}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour)}
	forged := &x509.Certificate{SerialNumber: leaf.SerialNumber, Subject: leaf.Subject, URIs: leaf.URIs, ExtraExtensions: leaf.Extensions,
		NotAfter: leaf.NotAfter, ExtKeyUsage: leaf.ExtKeyUsage}
	der, err := x509.CreateCertificate(rand.Reader, forged, ca, &key.PublicKey, strangerKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, cert := range map[string]tls.Certificate{
		"a stranger's":      {Certificate: [][]byte{der}, PrivateKey: key},
		"with our CA along": {Certificate: [][]byte{der, ours.Certificate[1]}, PrivateKey: key},
		"ours, another key": {Certificate: ours.Certificate, PrivateKey: crypto.Signer(key)},
	} {
		config := n.TLS(t)
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil } // unasked
		if r, err := n.TryConnectTLS(t, config, "lamp"); err == nil || r != nil && r.Connack != nil {
			t.Errorf("%s: %v", name, err)
		}
		c := httpsClient(t, config)
		if response, err := c.Get("https://" + n.HTTP + "/readyz"); err == nil {
			t.Errorf("%s: HTTPS answers %s", name, response.Status)
			_ = response.Body.Close()
		}
	}
	old := n.TLS(t)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if c, err := tls.Dial("tcp", n.MQTTS, old); err == nil {
		_ = c.Close()
		t.Error("TLS 1.1 is spoken")
	}
	if reason := refusedBy(n.TryConnectTLS(t, n.TLS(t), "nobody")); reason != 0x86 {
		t.Errorf("without any credential: %#x", reason)
	}
}

func TestATokenIsRenewedOnTheConnectionOrEndsIt(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	auth := func(r *bridgetest.Raw, text string) error {
		_, err := r.Authenticate(t.Context(), &paho.Auth{ReasonCode: 0x19, Properties: &paho.AuthProperties{AuthMethod: "JWT", AuthData: []byte(text)}})
		return err
	}
	var renewed, stays *bridgetest.Raw
	inTime(t, func(life time.Duration) (err error) {
		token := hs(t, "lamp", "exp", time.Now().Add(life).Unix())
		if renewed, err = n.TryConnect(t, "renewed", byMethod("JWT", token)); err != nil {
			return err
		}
		if stays, err = n.TryConnect(t, "stays", byMethod("JWT", token)); err != nil {
			return err
		}
		return auth(renewed, hs(t, "lamp", "roles", []string{"admin"}))
	})
	impostor := n.Connect(t, "impostor", byMethod("JWT", hs(t, "lamp")))
	go func() { _ = auth(impostor, hs(t, "fan")) }()
	for name, r := range map[string]*bridgetest.Raw{"one whose token expires": stays, "one that renews with another's": impostor} {
		select {
		case d := <-r.Dismissed:
			if d.ReasonCode != 0x87 || d.Properties == nil || d.Properties.ReasonString == "" {
				t.Errorf("%s is told %#x", name, d.ReasonCode)
			}
		case <-time.After(bridgetest.Patience):
			t.Errorf("%s stays", name)
		}
	}
	renewed.Listen(t, "aibridge/client/renewed/response")
	if answer := renewed.Ask(t, bridgetest.Request("1", "key.list", `{}`)); answer.Err != nil {
		t.Errorf("the new roles do not count: %v", answer.Err)
	}
	if who, _ := whoIs(t, admin, "renewed"); who != "lamp" {
		t.Errorf("the renewed one is %s", who)
	}
}

// inTime has something done with a credential of a short life, and done again
// with one of a longer life if the machine was too slow for it.
func inTime(t *testing.T, do func(life time.Duration) error) {
	t.Helper()
	for life := 3 * time.Second; ; life *= 2 {
		began := time.Now()
		err := do(life)
		if err == nil {
			return
		}
		if time.Since(began) < life-2*time.Second || life > bridgetest.Patience {
			t.Fatal(err)
		}
	}
}

func TestTheSDKRenewsItsTokenByItself(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	inTime(t, func(life time.Duration) error {
		first := hs(t, "lamp", "exp", time.Now().Add(life).Unix())
		var asked atomic.Int32
		known := make(chan struct{}) // how it connected: before that, nothing is renewed
		ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
		defer cancel()
		c, err := client.Dial(ctx, n.MQTTURL(), client.WithClientID("sdk"), client.WithToken(func(context.Context) (string, error) {
			if asked.Add(1) == 1 {
				return first, nil
			}
			<-known
			return hs(t, "lamp"), nil
		}))
		if err != nil {
			return err
		}
		defer c.Close()
		answer := admin.Ask(t, bridgetest.Request(protocol.NewID(), "session.get", `{"client_id":"sdk"}`))
		close(known)
		if answer.Err != nil { // it has ended
			return answer.Err
		}
		before, now := answer.Result, answer
		eventually.Holds(t, "the token is renewed", func() bool {
			now = admin.Ask(t, bridgetest.Request(protocol.NewID(), "session.get", `{"client_id":"sdk"}`))
			return now.Err != nil || credentialOf(t, now.Result) != credentialOf(t, before)
		}, &now)
		if now.Err != nil { // it has ended, renewed too late
			return now.Err
		}
		if _, err := client.Call[map[string]any](t.Context(), c, "agent.list", nil); err != nil {
			t.Error(err)
		}
		if remoteOf(t, now.Result) != remoteOf(t, before) {
			return errors.New("it connected anew instead")
		}
		return nil
	})
}

func field(t testing.TB, result json.RawMessage, name string) string {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal(result, &fields); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(fields[name])
}

func credentialOf(t *testing.T, session json.RawMessage) string {
	return field(t, session, "credential")
}
func remoteOf(t *testing.T, session json.RawMessage) string { return field(t, session, "remote") }

func TestARevokedKeyEndsItsConnections(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	var created, other struct {
		ID  string `json:"key_id"`
		Key string `json:"key"`
	}
	if err := json.Unmarshal(must(t, admin, "key.create", `{"principal_id":"lamp"}`), &created); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(must(t, admin, "key.create", `{"principal_id":"lamp"}`), &other); err != nil {
		t.Fatal(err)
	}
	mqtt := n.Connect(t, "lamp", withPassword("apikey", created.Key))
	stays := n.Caller(t, "lamp-2", withPassword("apikey", other.Key))
	ws, _, err := websocket.Dial(t.Context(), "ws://"+n.WS+"/ws", &websocket.DialOptions{
		HTTPClient: bridgetest.HTTPClient(t), HTTPHeader: http.Header{"X-Api-Key": {created.Key}}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	must(t, admin, "key.revoke", fmt.Sprintf(`{"key_id":%q}`, created.ID))
	select {
	case d := <-mqtt.Dismissed:
		if d.ReasonCode != 0x98 {
			t.Errorf("told %#x", d.ReasonCode)
		}
	case <-time.After(bridgetest.Patience):
		t.Error("the MQTT client stays")
	}
	ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
	defer cancel()
	if _, _, err := ws.Read(ctx); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("the WebSocket: %v", err)
	}
	if reason := refusedBy(n.TryConnect(t, "lamp", withPassword("apikey", created.Key))); reason != 0x86 {
		t.Errorf("the revoked key: %#x", reason)
	}
	if answer := stays.Ask(t, bridgetest.Request("1", "agent.list", `{}`)); answer.Err != nil {
		t.Errorf("another key of the same lamp: %v", answer.Err)
	}
}

func TestACredentialDoesWhatItIsForAndInItsOwnName(t *testing.T) {
	t.Parallel()
	n, _, _ := guarded(t)
	n.Device(t, "other", "other", `["switch"]`, withPassword("jwt", hs(t, "other")))
	lamp := n.Caller(t, "lamp", withPassword("jwt", hs(t, "lamp", "scope", "agent:list agent:register openid")))
	for name, test := range map[string]struct {
		envelope string
		want     protocol.Code
	}{
		"within its scopes":    {bridgetest.Request("1", "agent.list", `{}`), ""},
		"outside its scopes":   {bridgetest.Request("2", "skill.discover", `{}`), protocol.PermissionDenied},
		"another's sender id":  {envelope("3", "agent.list", `{}`, `{"sender_id":"other"}`), protocol.PermissionDenied},
		"beyond its role":      {bridgetest.Request("4", "key.list", `{}`), protocol.PermissionDenied},
		"in a batch, as alone": {bridgetest.Request("5", "batch.execute", `{"commands":[{"command":"key.create","params":{"principal_id":"x"}}]}`), protocol.PermissionDenied},
	} {
		if answer := lamp.Ask(t, test.envelope); protocol.CodeOf(errorOf(answer)) != test.want {
			t.Errorf("%s: %v", name, answer.Err)
		}
	}
}

func TestHTTPTakesTLSAndPlainConnectionsOnOnePortUnlessItShallNot(t *testing.T) {
	t.Parallel()
	n, _, _ := guarded(t)
	for name, c := range map[string]struct {
		client *http.Client
		url    string
		proto  string
	}{
		"plain": {bridgetest.HTTPClient(t), "http://" + n.HTTP, "HTTP/1.1"},
		"TLS":   {httpsClient(t, n.TLS(t)), "https://" + n.HTTP, "HTTP/2.0"},
		"ws":    {httpsClient(t, n.TLS(t)), "https://" + n.WS, "HTTP/1.1"},
	} {
		response, err := c.client.Get(c.url + "/readyz")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = response.Body.Close()
		if response.Proto != c.proto {
			t.Errorf("%s: %s", name, response.Proto)
		}
	}
	silent, err := net.Dial("tcp", n.HTTP) // does not keep others out, nor the bridge from stopping
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()

	only, _, _ := guarded(t, func(c *app.Config) { c.TLS.Only, c.MQTT.Address, c.MQTTS = true, "off", "127.0.0.1:0" })
	if response, err := bridgetest.HTTPClient(t).Get("http://" + only.HTTP + "/readyz"); err == nil {
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("plain HTTP is answered %s", response.Status)
		}
		_ = response.Body.Close()
	}
	if only.MQTT != "" || only.MQTTS == "" {
		t.Errorf("listens on %+v", only.Addresses)
	}
}

func TestABridgeShowsTheCertificateItIsGiven(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(7), DNSNames: []string{"bridge.example"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	n := bridgetest.Start(t, func(c *app.Config) {
		c.TLS.Cert, c.TLS.Key = fileOf(t, pemOf("CERTIFICATE", der)), fileOf(t, pemOf("PRIVATE KEY", private))
	})
	roots := x509.NewCertPool()
	own, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(own)
	if _, err := n.TryConnectTLS(t, &tls.Config{RootCAs: roots, ServerName: "bridge.example"}, "c"); err != nil {
		t.Error(err)
	}
}

func TestAnAgentMayBeRegisteredByOneAndConnectAsItself(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t)
	must(t, admin, "agent.register", `{"agent_id":"lamp","type":"end_agent"}`)
	must(t, admin, "skill.register", `{"agent_id":"lamp","skill":{"skill_id":"light","name":"l","description":"d","version":"1.0.0","type":"custom","capabilities":["switch"]}}`)
	lamp := n.Connect(t, "device-7", withPassword("jwt", hs(t, "lamp")))
	lamp.Listen(t, "aibridge/agent/lamp/request")
	admin.Send(t, "aibridge/bridge/request", bridgetest.Request("call", "skill.invoke", `{"skill_id":"light","capability_id":"switch"}`))
	lamp.Reply(t, "lamp", lamp.Invocation(t), map[string]bool{"on": true})
	if answer := admin.Answer(t); answer.Err != nil {
		t.Error(answer.Err)
	}
}

// An operator whose id is an agent's is not that agent: it neither hears what
// the agent is asked nor answers it, and speaks for nothing that is the agent's.
func TestAnOperatorWithTheIDOfAnAgentIsNotThatAgent(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t, func(c *app.Config) {
		c.Tokens.Issuers = append(c.Tokens.Issuers, token.Issuer{
			Issuer: "people", Secret: fileOf(t, []byte(issuerSecret)), Kind: protocol.KindOperator, RolesClaim: "roles",
			Roles: map[string]string{"observer": protocol.RoleObserver, "operator": protocol.RoleOperator, "device": protocol.RoleEndAgent},
		})
	})
	lamp := n.Device(t, "lamp", "light", `["switch"]`, withPassword("jwt", hs(t, "lamp")))
	for role, registers := range map[string]protocol.Code{"observer": protocol.PermissionDenied, "device": protocol.AlreadyExists} {
		namesake := n.Caller(t, "namesake-"+role, withPassword("jwt", hs(t, "lamp", "iss", "people", "roles", []string{role})))
		for _, filter := range []string{"aibridge/agent/lamp/request", "aibridge/agent/+/request", "$share/g/aibridge/agent/lamp/request"} {
			if _, err := namesake.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}}); err == nil {
				t.Errorf("%s: it listens to %s", role, filter)
			}
		}
		if answer := namesake.Ask(t, bridgetest.Request("1", "agent.register", `{"agent_id":"lamp","type":"end_agent"}`)); protocol.CodeOf(errorOf(answer)) != registers {
			t.Errorf("%s: it registers the agent: %v", role, answer.Err)
		}
		for _, command := range []string{"agent.unregister", "agent.heartbeat"} {
			if answer := namesake.Ask(t, bridgetest.Request(command, command, `{"agent_id":"lamp"}`)); protocol.CodeOf(errorOf(answer)) != protocol.PermissionDenied {
				t.Errorf("%s: %s: %v", role, command, answer.Err)
			}
		}
		if answer := namesake.Ask(t, bridgetest.Request("3", "skill.unregister", `{"skill_id":"light"}`)); protocol.CodeOf(errorOf(answer)) != protocol.PermissionDenied {
			t.Errorf("%s: it unregisters the skill: %v", role, answer.Err)
		}

		admin.Send(t, "aibridge/bridge/request", bridgetest.Request("call-"+role, "skill.invoke", `{"skill_id":"light","capability_id":"switch"}`))
		asked := lamp.Invocation(t)
		answer := asked.Answer("lamp", time.Now())
		answer.Result = []byte(`{"on":"no"}`)
		if p, err := namesake.Publish(t.Context(), &paho.Publish{Topic: "aibridge/agent/lamp/response", QoS: 1, Payload: answer.Append(nil)}); err == nil || p.ReasonCode != 0x87 {
			t.Errorf("%s: it answers for the agent: %v, %v", role, p, err)
		}
		lamp.Reply(t, "lamp", asked, map[string]bool{"on": true})
		if answer := admin.Answer(t); answer.Err != nil || !strings.Contains(string(answer.Result), `"on":true`) {
			t.Errorf("%s: answered with %s, %v", role, answer.Result, answer.Err)
		}
	}
}
