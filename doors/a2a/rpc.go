package a2a

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
)

// serveRPC serves a request of JSON-RPC.
func (d *Door) serveRPC(ctx context.Context, x *exchange, c *caller) {
	body, err := d.body(x, jsonType)
	if err != nil {
		x.refuse(err)
		return
	}
	m, err := readRPC(body)
	if m != nil {
		x.id = m.id
	}
	if err == nil {
		err = x.speaks()
	}
	if err != nil {
		x.refuse(err)
		return
	}
	d.perform(ctx, x, c, operations[m.method], m.params)
}

// An rpcRequest is a request of JSON-RPC.
type rpcRequest struct {
	id     json.RawMessage
	method string
	params *reader
}

// readRPC reads a request. With an error it returns the part that could be read.
func readRPC(body []byte) (*rpcRequest, error) {
	if !json.Valid(body) {
		return nil, refusal(parseError, "Invalid JSON payload")
	}
	fields, ok := read(body)
	if !ok || len(bytes.TrimSpace(body)) == 0 {
		return nil, refusal(invalidRequest, "the body must be one request, an object")
	}
	m := &rpcRequest{}
	id := bytes.TrimSpace(fields.fields["id"])
	if len(id) == 0 || id[0] == '{' || id[0] == '[' || id[0] == 't' || id[0] == 'f' {
		return m, refusal(invalidRequest, "id must be a string or a number")
	}
	m.id = json.RawMessage(id)
	var version string
	if json.Unmarshal(fields.fields["jsonrpc"], &version) != nil || version != "2.0" {
		return m, refusal(invalidRequest, `jsonrpc must be "2.0"`)
	}
	if json.Unmarshal(fields.fields["method"], &m.method) != nil || m.method == "" {
		return m, refusal(invalidRequest, "method must be a string")
	}
	if _, known := operations[m.method]; !known {
		return m, refusal(methodNotFound, "Method not found: "+strconv.Quote(bounded(m.method, 64)))
	}
	if m.params, ok = read(fields.raw("params")); !ok {
		return m, refusal(invalidParams, "Invalid parameters: params must be an object")
	}
	return m, nil
}
