package commands

import (
	"bytes"
	"encoding/json"

	"github.com/aibridge/aibridge/commands/schema"
	"github.com/aibridge/aibridge/protocol"
)

// asyncDoc describes params.async of a command that can run as a task.
const (
	asyncDoc      = "answer at once with a task_id; see task.get"
	asyncProperty = `"async":{"type":"boolean","description":"` + asyncDoc + `"}`
)

var asyncField = schema.Field{Path: "async", Type: "boolean", Doc: asyncDoc}

var asyncName = []byte(`"async"`)

// withAsync adds params.async to a schema written by package schema.
func withAsync(document json.RawMessage) json.RawMessage {
	const properties = `"properties":{`
	head, tail, _ := bytes.Cut(document, []byte(properties))
	out := append([]byte{}, head...)
	out = append(out, properties+asyncProperty...)
	if tail[0] != '}' {
		out = append(out, ',')
	}
	return append(out, tail...)
}

// cutAsync takes the member async out of checked parameters, so that the
// command's own parameters are left.
func cutAsync(params json.RawMessage) (rest json.RawMessage, async bool, err error) {
	if !bytes.Contains(params, asyncName) {
		return params, false, nil
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(params, &members) != nil {
		return params, false, nil // not an object: the command's decoder says so
	}
	value, ok := members["async"]
	if !ok {
		return params, false, nil
	}
	if json.Unmarshal(value, &async) != nil || string(value) == "null" {
		return nil, false, protocol.InvalidParam("async", "must be true or false")
	}
	delete(members, "async")
	rest, err = json.Marshal(members)
	return rest, async, err
}
