package door

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
	Version string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Method  string         `json:"method"`
	Params  struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
		RequestID any            `json:"requestId"`
		Meta      struct {
			Version      string         `json:"io.modelcontextprotocol/protocolVersion"`
			Capabilities jsontext.Value `json:"io.modelcontextprotocol/clientCapabilities"`
			Client       jsontext.Value `json:"io.modelcontextprotocol/clientInfo"`
			LogLevel     jsontext.Value `json:"io.modelcontextprotocol/logLevel"`
			Progress     jsontext.Value `json:"progressToken"`
			Traceparent  string         `json:"traceparent"`
		} `json:"_meta"`
	} `json:"params"`
}

func peek(body []byte) (m message) {
	if err := json.Unmarshal(body, &m.parts); err != nil {
		if !jsontext.Value(body).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			return message{malformed: true}
		}
		m.Params.Name = "" // it is of another form, or says something twice: nothing for [message.plain]
	}
	m.id = idFrom(m.ID)
	return m
}

// idFrom is the id that a text is, not valid for anything else.
func idFrom(text []byte) jsonrpc.ID {
	if n, err := strconv.ParseInt(string(text), 10, 53); err == nil {
		id, _ := jsonrpc.MakeID(float64(n))
		return id
	}
	var value any
	if len(text) == 0 || json.Unmarshal(text, &value) != nil {
		return jsonrpc.ID{}
	}
	id, _ := jsonrpc.MakeID(value)
	return id
}

// text is the id as it tells calls from each other.
func (m *message) text() string { return string(m.ID) }
