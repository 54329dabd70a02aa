package broker

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
)

// asked is the answer to a request for a WebSocket, and what follows it.
func (n *node) asked(method string, change func(http.Header)) (*http.Response, *bufio.Reader, net.Conn) {
	n.t.Helper()
	r, err := http.NewRequest(method, "http://"+n.addr+"/", nil)
	if err != nil {
		n.t.Fatalf("request: %v", err)
	}
	for key, value := range map[string]string{
		"Connection": "keep-alive, Upgrade", "Upgrade": "WebSocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": "graphql-ws, mqtt",
	} {
		r.Header.Set(key, value)
	}
	change(r.Header)
	nc := n.dialUnder()
	if t, ok := n.t.(*testing.T); ok {
		t.Cleanup(func() { _ = nc.Close() })
	}
	if err := r.Write(nc); err != nil {
		n.t.Fatalf("request: %v", err)
	}
	reader := bufio.NewReader(nc)
	answer, err := http.ReadResponse(reader, r)
	if err != nil {
		n.t.Fatalf("answer: %v", err)
	}
	return answer, reader, nc
}

func TestUpgradesThatAreRefused(t *testing.T) {
	t.Parallel()
	n := newNode(t, overWebSocket+1)
	for name, test := range map[string]struct {
		method string
		change func(http.Header)
		status int
		header string
	}{
		"a page":                 {"GET", func(h http.Header) { h.Del("Upgrade") }, http.StatusUpgradeRequired, "Upgrade"},
		"another connection":     {"GET", func(h http.Header) { h.Set("Connection", "close") }, http.StatusUpgradeRequired, "Upgrade"},
		"a post":                 {"POST", func(http.Header) {}, http.StatusMethodNotAllowed, ""},
		"an old version":         {"GET", func(h http.Header) { h.Set("Sec-WebSocket-Version", "8") }, http.StatusBadRequest, "Sec-Websocket-Version"},
		"no key":                 {"GET", func(h http.Header) { h.Del("Sec-WebSocket-Key") }, http.StatusBadRequest, ""},
		"a key that is too long": {"GET", func(h http.Header) { h.Set("Sec-WebSocket-Key", strings.Repeat("A", 24)) }, http.StatusBadRequest, ""},
	} {
		answer, _, _ := n.asked(test.method, test.change)
		if answer.StatusCode != test.status || test.header != "" && answer.Header.Get(test.header) == "" {
			t.Errorf("%s: %s %v", name, answer.Status, answer.Header)
		}
	}
}

func TestAnUpgradeIsAnsweredAsTheRFCSays(t *testing.T) {
	t.Parallel()
	n := newNode(t, overWebSocket+1)
	answer, rest, nc := n.asked("GET", func(http.Header) {})
	if answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" ||
		answer.Header.Get("Sec-WebSocket-Protocol") != "mqtt" {
		t.Fatalf("%s %v", answer.Status, answer.Header)
	}
	connect := packet.Connect{Version: packet.V5, CleanStart: true, ClientID: []byte("early")}
	if _, err := nc.Write(append(masked(wsFinal|wsPing, 1, nil), masked(wsFinal|wsBinary, 2, connect.Append(nil))...)); err != nil {
		t.Fatal(err)
	}
	var head [5]byte // the pong, then a frame with CONNACK
	if _, err := io.ReadFull(rest, head[:]); err != nil || head[0] != wsFinal|wsPong || head[1] != 0 || head[2] != wsFinal|wsBinary || packet.Type(head[4]>>4) != packet.CONNACK {
		t.Errorf("% x, %v", head, err)
	}
}

// TestPacketsThatComeWithTheUpgrade does not wait for the broker's answer to begin.
func TestPacketsThatComeWithTheUpgrade(t *testing.T) {
	t.Parallel()
	for _, readers := range []int{overWebSocket + 1, overWebSocket - 1, overWebSocket + overTLS + 1} {
		t.Run(fmt.Sprint(readers), func(t *testing.T) {
			n := newNode(t, readers)
			nc := n.dialUnder()
			defer nc.Close()
			connect := packet.Connect{Version: packet.V5, CleanStart: true, ClientID: []byte("hasty")}
			request := "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
				"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
			frame := masked(wsFinal|wsBinary, 3, connect.Append(nil))
			if _, err := nc.Write(append([]byte(request), frame[:9]...)); err != nil {
				t.Fatal(err)
			}
			rest := bufio.NewReader(nc)
			if answer, err := http.ReadResponse(rest, nil); err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
				t.Fatal(answer, err)
			}
			if _, err := nc.Write(frame[9:]); err != nil {
				t.Fatal(err)
			}
			var head [3]byte
			if _, err := io.ReadFull(rest, head[:]); err != nil || packet.Type(head[2]>>4) != packet.CONNACK {
				t.Errorf("% x, %v", head, err)
			}
		})
	}
}

// TestHowABrokerClosesAWebSocket reads the close frame that ends each connection.
func TestHowABrokerClosesAWebSocket(t *testing.T) {
	t.Parallel()
	connect := packet.Connect{Version: packet.V5, CleanStart: true, ClientID: []byte("c")}
	disconnect := packet.Disconnect{}
	for name, test := range map[string]struct {
		sent []byte
		want uint16
	}{
		"the client says text":        {masked(wsFinal|wsText, 1, []byte("hello")), wsUnsupported},
		"the client breaks the rules": {masked(wsFinal|0x40|wsBinary, 1, nil), wsBreach},
		"the client closes":           {masked(wsFinal|wsClose, 1, closing(3000, "")), 3000},
		"the client disconnects":      {masked(wsFinal|wsBinary, 1, append(connect.Append(nil), disconnect.Append(nil, packet.V5)...)), wsNormal},
	} {
		for _, readers := range []int{overWebSocket + 1, overWebSocket - 1, overWebSocket + overTLS + 1} {
			t.Run(fmt.Sprint(name, readers), func(t *testing.T) {
				t.Parallel()
				n := newNode(t, readers)
				_, rest, nc := n.asked("GET", func(http.Header) {})
				if _, err := nc.Write(test.sent); err != nil {
					t.Fatal(err)
				}
				all, _ := io.ReadAll(rest)
				end := append([]byte{wsFinal | wsClose, 2}, closing(test.want, "")...)
				if test.want == wsUnsupported || test.want == wsBreach { // with a reason
					if i := strings.LastIndex(string(all), string(end[2:])); i < 2 || all[i-2] != wsFinal|wsClose {
						t.Errorf("% x", all)
					}
				} else if !strings.HasSuffix(string(all), string(end)) {
					t.Errorf("% x", all)
				}
			})
		}
	}
}

// TestAClientThatOnlyPingsIsCutOff: answers that nobody reads are bounded.
func TestAClientThatOnlyPingsIsCutOff(t *testing.T) {
	t.Parallel()
	n := newNode(t, overWebSocket+1)
	_, _, nc := n.asked("GET", func(http.Header) {})
	ping := masked(wsFinal|wsPing, 1, make([]byte, mostControl))
	var many []byte
	for range 1000 {
		many = append(many, ping...)
	}
	for sent := 0; ; sent += len(many) {
		if _, err := nc.Write(many); err != nil {
			return
		}
		if sent > 1<<30 {
			t.Fatal("it may go on for ever")
		}
	}
}
