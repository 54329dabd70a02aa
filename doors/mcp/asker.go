package mcp

import (
	"context"
	"encoding/json"
	"errors"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// samplingMethod is the method by which a client is asked for an answer of its model.
const samplingMethod = "sampling/createMessage"

// A clientAsker asks the client of a session on behalf of a call that it has made, for the
// server that works on the call. It is a [commands.Asker].
type clientAsker struct {
	session *sdk.ServerSession
	ctx     context.Context // of the request, whose stream carries the question
}

// Answers reports whether the client supports a method of requests to it. Clients of
// versions without sessions cannot be asked while a call runs.
func (a *clientAsker) Answers(method string) bool {
	switch method {
	case elicitation:
		return formsOf(a.session)
	case samplingMethod:
		hello := a.session.InitializeParams()
		return hello != nil && hello.ProtocolVersion < firstStateless && hello.Capabilities != nil && hello.Capabilities.Sampling != nil
	}
	return false
}

// asksBack reports whether the client of a session supports requests to it.
func asksBack(session *sdk.ServerSession) bool {
	a := clientAsker{session: session}
	return a.Answers(elicitation) || a.Answers(samplingMethod)
}

// Ask asks the client.
func (a *clientAsker) Ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	within, cancel := context.WithCancel(a.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	var answer any
	var err error
	switch method {
	case elicitation:
		var form sdk.ElicitParams
		if err := json.Unmarshal(params, &form); err != nil {
			return nil, err
		}
		answer, err = a.session.Elicit(within, &form)
	case samplingMethod:
		var question sdk.CreateMessageWithToolsParams
		if err := json.Unmarshal(params, &question); err != nil {
			return nil, err
		}
		answer, err = a.session.CreateMessageWithTools(within, &question)
	default:
		return nil, errors.New("clients are not asked so")
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(answer)
}
