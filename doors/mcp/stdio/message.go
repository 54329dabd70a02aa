package stdio

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
)

// firstStateless is the first version of MCP without sessions.
const firstStateless = "2026-07-28"

// Headers of streamable HTTP.
const (
	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
	methodHeader  = "Mcp-Method"
	nameHeader    = "Mcp-Name"
)

// A message holds the parts of a line that the proxy needs.
type message struct {
	raw    []byte
	sent   string          // id of the session that it was last sent in
	ID     json.RawMessage `json:"id"` // as it stands there, nil or null without one
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		URI       string          `json:"uri"`
		TaskID    string          `json:"taskId"`
		RequestID json.RawMessage `json:"requestId"`
		Version   string          `json:"protocolVersion"`
		Meta      struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	} `json:"params"`
}

func read(line []byte) (*message, bool) {
	m := &message{raw: line}
	if !json.Valid(line) {
		return m, false
	}
	_ = json.Unmarshal(line, m) // the bridge refuses other forms
	if bytes.Equal(m.ID, []byte("null")) {
		m.ID = nil
	}
	return m, true
}

// calls reports whether the message is a call, which requires an answer.
func (m *message) calls() bool { return m.Method != "" && m.ID != nil }

// stateless reports whether the message is of a version without sessions.
func (m *message) stateless() bool { return m.Params.Meta.Version >= firstStateless }

// headers sets the headers of the HTTP request with the message, by its version of the
// protocol.
func (m *message) headers(h http.Header, s session) {
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	if !m.stateless() {
		if m.Method != "initialize" {
			s.headers(h)
		}
		return
	}
	h.Set(versionHeader, m.Params.Meta.Version)
	h.Set(methodHeader, headerText(m.Method))
	switch m.Method {
	case "tools/call", "prompts/get":
		h.Set(nameHeader, headerText(m.Params.Name))
	case "resources/read":
		h.Set(nameHeader, headerText(m.Params.URI))
	case "tasks/get", "tasks/update", "tasks/cancel":
		h.Set(nameHeader, headerText(m.Params.TaskID))
	}
}

// headerText is a text as the protocol writes it in a header.
func headerText(text string) string {
	plain := strings.TrimSpace(text) == text && !strings.HasPrefix(text, "=?base64?") &&
		!strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' })
	if plain {
		return text
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
}

// failure is a JSON-RPC error as the answer to a message, one line.
func failure(id json.RawMessage, code int, text string) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	line, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}{Version: "2.0", ID: id, Error: struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}{code, text}})
	if err != nil {
		return []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}}`)
	}
	return line
}

// JSON-RPC codes.
const (
	codeParse       = -32700
	codeRequest     = -32600
	codeUnreachable = -32000
)
