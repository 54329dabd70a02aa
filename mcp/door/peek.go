package door

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A message is what has to be known of a body before the SDK reads it.
type message struct {
	malformed bool
	id        jsonrpc.ID // not valid for notifications, answers and batches
	parts
}

// parts are those of a JSON-RPC message that matter here. What is of another
// form is left to the SDK to refuse.
type parts struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		RequestID any             `json:"requestId"`
		Meta      struct {
			Version      string          `json:"io.modelcontextprotocol/protocolVersion"`
			Capabilities json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities"`
			Client       json.RawMessage `json:"io.modelcontextprotocol/clientInfo"`
			LogLevel     json.RawMessage `json:"io.modelcontextprotocol/logLevel"`
			Progress     json.RawMessage `json:"progressToken"`
			Traceparent  string          `json:"traceparent"`
		} `json:"_meta"`
	} `json:"params"`
}

func peek(body []byte) (m message) {
	err := json.Unmarshal(body, &m.parts)
	if err != nil && !json.Valid(body) {
		return message{malformed: true}
	}
	if err != nil { // not of the form above
		m.Params.Name = ""
	}
	var id any
	if len(m.ID) > 0 && json.Unmarshal(m.ID, &id) == nil {
		m.id, _ = jsonrpc.MakeID(id)
	}
	return m
}

// text is the id as it tells calls from each other.
func (m *message) text() string { return string(m.ID) }
