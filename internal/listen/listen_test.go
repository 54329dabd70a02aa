package listen

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// loopback is a host that no other test listens at: nobody is given a port of
// it between two steps of a test.
const loopback = "127.0.0.3:0"

func open(t *testing.T, names ...string) *Sockets {
	t.Helper()
	var addresses []Address
	for _, name := range names {
		addresses = append(addresses, Address{Name: name, Address: loopback})
	}
	s, err := Open(t.Context(), addresses)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func dials(address string) bool {
	c, err := net.Dial("tcp", address)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

func TestAllSocketsOpenOrNone(t *testing.T) {
	taken := open(t, "taken").Address("taken")
	free := open(t, "free")
	address := free.Address("free")
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), []Address{{Name: "mqtt", Address: address}, {Name: "http", Address: taken}})
	if err == nil || !strings.HasPrefix(err.Error(), "http: ") {
		t.Fatalf("a port in use: %v", err)
	}
	again, err := Open(t.Context(), []Address{{Name: "mqtt", Address: address}})
	if err != nil {
		t.Fatalf("the other port is not free again: %v", err)
	}
	if again.Address("mqtt") != address || again.Address("ws") != "" || again.Get("ws") != nil {
		t.Errorf("it listens on %s", again.Address("mqtt"))
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if err := again.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

func TestAStandbyKeepsOneSocketAndComesBackToTheOthers(t *testing.T) {
	s := open(t, "mqtt", "http")
	mqtt := s.Address("mqtt")
	s.StandBy("http")
	if !s.StandsBy() || dials(mqtt) || !dials(s.Address("http")) {
		t.Fatal("it has not stepped back from mqtt alone")
	}
	if err := s.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.StandsBy() || s.Address("mqtt") != mqtt || !dials(mqtt) {
		t.Errorf("it listens on %s, not on %s again", s.Address("mqtt"), mqtt)
	}
	if err := s.Resume(t.Context()); err != nil {
		t.Errorf("a second step: %v", err)
	}
}

func TestTheLobbyTellsWhyAndGivesTheListenerBack(t *testing.T) {
	s := open(t, "http")
	l := NewLobby("it starts")
	get := func() string {
		t.Helper()
		response, err := http.Get("http://" + s.Address("http"))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	l.Open(s, "http", &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, l.Why()) })})
	if got := get(); got != "it starts" {
		t.Errorf("it says %q", got)
	}
	l.Waits("it waits for NATS")
	if got := get(); got != "it waits for NATS" {
		t.Errorf("it says %q", got)
	}
	for range 2 {
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var servers Servers
	served := make(chan error, 1)
	serve := servers.Serve(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") })}, s.Get("http"))
	go func() { served <- serve() }()
	if got := get(); got != "served" {
		t.Errorf("who comes next is told %q", got)
	}
	if err := servers.Finish(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Errorf("it ended with %v", err)
	}
	if err := servers.Close(); err != nil {
		t.Error(err)
	}
}
