package mcp

import (
	"math"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A message holds the parts of a body that the door needs before the SDK reads it.
type message struct {
	malformed bool
	id        jsonrpc.ID // not valid for notifications, answers and batches
	fault     *fault     // nil if nothing is wrong with its form
	parts
}

// parts are the members of a JSON-RPC message that matter here. A member of another
// form is left to the SDK to refuse.
type parts struct {
	Version string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Method  string         `json:"method"`
	Result  jsontext.Value `json:"result"`
	Error   jsontext.Value `json:"error"`
	Params  struct {
		Name      string         `json:"name"`
		URI       string         `json:"uri"`
		Level     string         `json:"level"`
		Arguments jsontext.Value `json:"arguments"`
		RequestID any            `json:"requestId"`
		State     string         `json:"requestState"` // of a continued call
		// Of the extension about tasks:
		TaskID        string                    `json:"taskId"`
		Responses     map[string]jsontext.Value `json:"inputResponses"`
		Notifications wanted                    `json:"notifications"`
		Meta          struct {
			Version      string         `json:"io.modelcontextprotocol/protocolVersion"`
			Capabilities jsontext.Value `json:"io.modelcontextprotocol/clientCapabilities"`
			Client       jsontext.Value `json:"io.modelcontextprotocol/clientInfo"`
			LogLevel     jsontext.Value `json:"io.modelcontextprotocol/logLevel"`
			Progress     jsontext.Value `json:"progressToken"`
			Traceparent  string         `json:"traceparent"`
			Depth        float64        `json:"aibridge/depth"`
			Wait         *float64       `json:"aibridge/approval_wait_ms"`
		} `json:"_meta"`
	} `json:"params"`
}

func peek(body []byte) (m message) {
	if m.glance(body) {
		m.id = idFrom(m.ID)
		m.fault = m.wrong()
		return m
	}
	m.parts = parts{}
	if err := json.Unmarshal(body, &m.parts); err != nil {
		if !jsontext.Value(body).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			return message{malformed: true}
		}
		m.Params.Name = "" // another form, or duplicate fields: not for [message.plain]
		m.fault = faultOf(body, &m.parts)
	}
	m.id = idFrom(m.ID)
	if m.fault == nil {
		m.fault = m.wrong()
	}
	return m
}

// maxID is the largest number that is an id: larger ones are not exact in JSON.
const maxID = 1<<53 - 1

// idFrom converts a text to an id, invalid for other texts.
func idFrom(text []byte) jsonrpc.ID {
	if n, err := strconv.ParseInt(string(text), 10, 53); err == nil {
		id, _ := jsonrpc.MakeID(float64(n))
		return id
	}
	var value any
	if len(text) == 0 || json.Unmarshal(text, &value) != nil {
		return jsonrpc.ID{}
	}
	if n, ok := value.(float64); ok && (n != math.Trunc(n) || math.Abs(n) > maxID) {
		return jsonrpc.ID{} // which the SDK would round
	}
	id, _ := jsonrpc.MakeID(value)
	return id
}

// text is the id as a key of calls.
func (m *message) text() string { return string(m.ID) }
