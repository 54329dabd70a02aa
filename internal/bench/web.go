package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The doors of a bridge that speak HTTP, as transports of calls. Each answer is
// waited for before the next call of a connection.
const (
	OverHTTP  Over = "http"  // request envelopes in HTTP/1.1 on connections kept alive
	OverHTTP2 Over = "http2" // the same in HTTP/2 over TLS
	OverMCP   Over = "mcp"   // tools/call in HTTP/1.1, without a session
)

// isWeb reports whether calls go by HTTP.
func (o Over) isWeb() bool { return slices.Contains([]Over{OverHTTP, OverHTTP2, OverMCP}, o) }

// overWeb are the invocations of one window by the doors that speak HTTP.
func overWeb(invocations []Scenario) (all []Scenario) {
	for _, over := range []Over{OverHTTP, OverHTTP2, OverMCP} {
		for _, s := range invocations {
			s.Name = strings.Replace(s.Name, ", window 1", ", "+string(over), 1)
			s.Over = over
			all = append(all, s)
		}
	}
	return all
}

// webAddress is where the bridge that uses a folder serves HTTP.
func webAddress(dir string) (address netip.AddrPort, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "addresses.json"))
	if err != nil {
		return address, err
	}
	var known struct{ HTTP string }
	if err := json.Unmarshal(text, &known); err != nil {
		return address, err
	}
	return netip.ParseAddrPort(known.HTTP)
}

// A webCall is an HTTP/1.1 request that invokes the skill, with the few things in
// it that change.
type webCall struct {
	call
	path    string
	headers string
	body    []byte
	atHead  int // of the body in the request
}

// newWebCall is a call of a size by a door.
func newWebCall(over Over, size int, index int) *webCall {
	if over != OverMCP {
		w := &webCall{path: "/api/v1/commands"}
		w.body = w.call.envelope(size, fmt.Sprint("bench-caller-", index))
		return w
	}
	const hex16 = "0000000000000000"
	w := &webCall{path: "/mcp", headers: "Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: " + benchSkill + "." + benchEcho + "\r\n"}
	b := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + benchSkill + "." + benchEcho + `","arguments":{"n":"`)
	w.atParam, b = len(b), append(b, hex16...)
	b = append(b, `","text":"`...)
	const tail = `"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	b = append(b, bytes.Repeat([]byte("x"), max(size-len(b)-len(tail), 0))...)
	w.body = append(b, tail...)
	return w
}

// write puts what changes into the body.
func (w *webCall) write(number uint64, now int64) {
	if w.atNumber > 0 {
		w.call.write(w.body, number, now)
		return
	}
	putHex(w.body[w.atParam:], number)
}

// request is the whole of an HTTP/1.1 request.
func (w *webCall) request(to netip.AddrPort) []byte {
	head := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n", w.path, to, len(w.body), w.headers)
	w.atHead = len(head)
	return append(head, w.body...)
}

// answers reports whether a body is the answer to a number.
func (w *webCall) answers(body []byte, number uint64) bool {
	var want [16]byte
	putHex(want[:], number)
	return bytes.Contains(body, want[:]) && !bytes.Contains(body, []byte(`"isError":true`))
}
