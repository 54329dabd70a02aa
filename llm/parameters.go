package llm

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

// Parameters are the subject of a question. The fields system, messages and segments
// have a meaning; all others go to the model unchanged.
type Parameters struct {
	System   string
	Messages []chat.Message // the conversation before the question
	Segments []chat.Segment // media of the question, beside its text
	Context  map[string]json.RawMessage
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *Parameters) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &p.Context); err != nil || p.Context == nil {
		return errors.New("must be an object")
	}
	for name, into := range map[string]any{"system": &p.System, "messages": &p.Messages, "segments": &p.Segments} {
		raw, ok := p.Context[name]
		if !ok {
			continue
		}
		delete(p.Context, name)
		if err := json.Unmarshal(raw, into); err != nil {
			return errors.New(name + " cannot be read: " + misread(err))
		}
	}
	return nil
}

// misread is the description of a JSON error for the author of the JSON: the kind of
// value found, and its field.
func misread(err error) string {
	wrong := new(json.UnmarshalTypeError)
	switch {
	case !errors.As(err, &wrong):
		return err.Error()
	case wrong.Field == "":
		return "not a " + wrong.Value
	}
	return "no " + wrong.Value + " belongs at " + wrong.Field
}

// JSONSchema describes the parameters.
func (Parameters) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` +
		`"system":{"type":"string","description":"what the model is told before everything else"},` +
		`"messages":{"type":"array","description":"the conversation so far: {role, segments} or {role, content, toolCalls}","items":{"type":"object"}},` +
		`"segments":{"type":"array","description":"images and other media of the question: {type, data, mimeType}","items":{"type":"object"}}},` +
		`"additionalProperties":true}`)
}

// maxMessages is the greatest number of messages of one query.
const maxMessages = 10_000

// messages returns the conversation of a query, with its question as the last message.
func (p *QueryParams) messages() ([]chat.Message, error) {
	question := chat.TextMessage(chat.User, p.Query)
	if p.Parameters == nil {
		return []chat.Message{question}, nil
	}
	var list []chat.Message
	if p.Parameters.System != "" {
		list = append(list, chat.TextMessage(chat.System, p.Parameters.System))
	}
	first := len(list)
	list = append(list, p.Parameters.Messages...)
	question.Segments = append(question.Segments, p.Parameters.Segments...)
	if len(p.Parameters.Context) > 0 {
		raw, err := json.Marshal(p.Parameters.Context) // sorted, so that the same question stays the same
		if err != nil {
			return nil, protocol.InvalidParam("parameters", "is not JSON")
		}
		question.Segments = append(question.Segments, chat.Segment{Type: chat.Text, Text: "\n\nParameters:\n" + string(raw)})
	}
	list = append(list, question)
	if len(list) > maxMessages {
		return nil, protocol.InvalidParam("parameters.messages", "are too many")
	}
	if err := chat.Complete(list[first:]); err != nil {
		fault, _ := errors.AsType[*chat.Fault](err)
		path := strings.Replace(fault.Path, "messages", "parameters.messages", 1)
		return nil, protocol.InvalidParam(path, fault.Reason)
	}
	return list, nil
}
