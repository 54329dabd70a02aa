package broker_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/eclipse/paho.golang/paho"
	paho3 "github.com/eclipse/paho.mqtt.golang"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

func TestMQTTOverWebSocket(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c, _, err := n.dialOver(n.webSocket(), "browser")
	if err != nil {
		t.Fatal(err)
	}
	c.subscribe("x", 1)
	for client := range n.Clients() {
		if client.Listener != "ws" || !strings.HasPrefix(client.Remote.String(), "127.0.0.1:") {
			t.Errorf("client %+v", client)
		}
	}
	payload := strings.Repeat("long ", 50_000)
	c.publish(&paho.Publish{Topic: "x", QoS: 1, Payload: []byte(payload)})
	if m := c.receive(); string(m.Payload) != payload {
		t.Errorf("received %d bytes", len(m.Payload))
	}
	if !n.Disconnect(home("browser"), 0x98, "bye") {
		t.Error("browser was not found")
	}
	if d := <-c.dropped; d.ReasonCode != 0x98 {
		t.Errorf("DISCONNECT %#x", d.ReasonCode)
	}
}

func TestWebSocketWantsSubprotocol(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, n.web, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	if _, _, err := ws.Read(ctx); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("read: %v", err)
	}
}

func TestVerifiedPeerCertificateReachesTheAuthenticator(t *testing.T) {
	t.Parallel()
	shown := make(chan *x509.Certificate, 2)
	n := newNode(t, func(o *broker.Options) {
		o.Authenticate = func(_ context.Context, c broker.Credentials) (*protocol.Principal, error) {
			shown <- c.Peer
			return &protocol.Principal{ID: "peer"}, nil
		}
	})
	certificate, roots := selfSigned(t)
	addr := n.listen(func(l net.Listener) {
		_ = n.Serve(t.Context(), "mqtts", tls.NewListener(l, &tls.Config{
			Certificates: []tls.Certificate{certificate},
			ClientAuth:   tls.VerifyClientCertIfGiven,
			ClientCAs:    roots,
		}))
	})
	for _, own := range [][]tls.Certificate{{certificate}, nil} {
		c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: roots, ServerName: "localhost", Certificates: own})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := n.dialOver(&lockedConn{Conn: c}, "dev"); err != nil {
			t.Fatal(err)
		}
		if peer := <-shown; (peer != nil) != (own != nil) {
			t.Errorf("shown %d certificates, peer %v", len(own), peer)
		} else if peer != nil && peer.SerialNumber.Int64() != 0x1234 {
			t.Errorf("peer %v", peer.SerialNumber)
		}
	}
}

func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(0x1234), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

func TestMQTT311(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	options := paho3.NewClientOptions().AddBroker("tcp://" + n.tcp).SetClientID("old").SetAutoReconnect(false).
		SetUsername("ann").SetPassword("ann")
	c := paho3.NewClient(options)
	await(t, c.Connect())
	defer c.Disconnect(250)

	got := make(chan paho3.Message, 10)
	await(t, c.Subscribe("client/old/response", 1, func(_ paho3.Client, m paho3.Message) { got <- m }))
	refused := c.Subscribe("forbidden/x", 0, nil).(*paho3.SubscribeToken)
	refused.Wait()
	if code := refused.Result()["forbidden/x"]; code != 0x80 {
		t.Errorf("SUBACK %#x", code)
	}
	await(t, c.Publish("forbidden/x", 1, false, "x")) // acknowledged, dropped
	receivers, err := n.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{
		Topic: "client/old/response", Payload: []byte("answer"), QoS: 1,
		CorrelationData: []byte("c"), UserProperties: []protocol.UserProperty{{Key: "k", Value: "v"}},
	})
	if err != nil || receivers != 1 {
		t.Fatalf("publish: %d, %v", receivers, err)
	}
	if m := <-got; string(m.Payload()) != "answer" || m.Qos() != 1 {
		t.Errorf("received %s", m.Payload())
	}
	if !n.Disconnect(home("old"), 0x98, "bye") {
		t.Error("old was not found")
	}
	n.seen.expect(t, "old connected v4", "old subscribed client/old/response", "old disconnected: bye")
}

func TestMQTT311IsRefusedWithItsOwnCodes(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.connect("taken", as("bob"))
	for _, c := range []struct {
		id, password string
		want         byte
	}{{"old", "wrong", 4}, {strings.Repeat("x", 257), "ann", 2}, {"taken", "ann", 5}} {
		options := paho3.NewClientOptions().AddBroker("tcp://" + n.tcp).SetClientID(c.id).
			SetUsername("ann").SetPassword(c.password).SetProtocolVersion(4)
		token := paho3.NewClient(options).Connect().(*paho3.ConnectToken)
		token.Wait()
		if token.Error() == nil || token.ReturnCode() != c.want {
			t.Errorf("%s/%s: code %d, %v", c.id, c.password, token.ReturnCode(), token.Error())
		}
	}
}

func await(t *testing.T, token paho3.Token) {
	t.Helper()
	if !token.WaitTimeout(patience) || token.Error() != nil {
		t.Fatalf("MQTT 3.1.1: %v", token.Error())
	}
}
