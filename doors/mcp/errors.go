package mcp

import (
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/aibridge/aibridge/protocol"
)

// codeRefused is the JSON-RPC code of refused and failed requests, one of the codes for
// servers.
const codeRefused = -32000

// rpcCode is the JSON-RPC code of an error of the bridge's.
func rpcCode(err *protocol.Error) int64 {
	switch err.Code {
	case protocol.InvalidParameter, protocol.NotFound, protocol.FileNotFound:
		return jsonrpc.CodeInvalidParams
	case protocol.MalformedEnvelope:
		return jsonrpc.CodeInvalidRequest
	case protocol.Internal:
		return jsonrpc.CodeInternalError
	}
	return codeRefused
}

// errorData is the data that an error shows to clients beside its text: the
// bridge's own code and details.
func errorData(err *protocol.Error) json.RawMessage {
	data, failed := json.Marshal(struct {
		Code    protocol.Code  `json:"code"`
		Details map[string]any `json:"details,omitempty"`
	}{err.Code, err.Details})
	if failed != nil {
		return nil
	}
	return data
}

// wireError is an error as a request is answered with it. One that is not of
// the protocol stays inside.
func wireError(err error) error {
	if already := new(jsonrpc.Error); errors.As(err, &already) {
		return already
	}
	known := protocol.AsError(err)
	return &jsonrpc.Error{Code: rpcCode(known), Message: known.Message, Data: errorData(known)}
}

// bounded is at most n bytes of a text, cut between characters.
func bounded(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
