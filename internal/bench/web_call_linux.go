package bench

import (
	"bytes"
	"fmt"
	"net/netip"
)

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
		w.body = w.call.envelope(size, benchSkill, fmt.Sprint("bench-caller-", index))
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

// write writes the variable fields into the body.
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

// newQuery is a question of a size, to a bridge or to the model itself.
func newQuery(direct bool, size int) *webCall {
	w := &webCall{path: queryPath, headers: "Accept: application/json\r\n"}
	head, tail := queryHead, queryTail
	if direct {
		w.path, head, tail = modelPath, chatHead, chatTail
	}
	b := []byte(head + numberMark)
	w.atParam, b = len(b), append(b, "0000000000000000 "...)
	b = append(b, bytes.Repeat([]byte("x"), max(size-len(b)-len(tail), 0))...)
	w.body = append(b, tail...)
	return w
}
