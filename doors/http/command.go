package http

import (
	"bytes"
	"context"
	"net/http"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// postEnvelope takes a request envelope and always answers with a response
// envelope; the HTTP status repeats its code.
func (a *API) postEnvelope(w http.ResponseWriter, r *http.Request) {
	who, done, no := a.accept(r)
	if no != nil {
		writeEnvelope(w, no.status, a.failure(no.err))
		return
	}
	defer done()
	buf, no := a.body(w, r)
	if no != nil {
		writeEnvelope(w, no.status, a.failure(no.err))
		return
	}
	defer a.release(buf)
	in := inbound(r, who, buf.Bytes())
	if a.Southbound != nil && protocol.IsSouthbound(in.Body) {
		a.southbound(w, r, in)
		return
	}
	if wantsEvents(r) {
		a.stream(w, r, in, a.handle)
		return
	}
	a.await(w, r, in, envelopeOf)
}

// postCommand takes the params of the command in the path and answers with
// its bare result or error.
func (a *API) postCommand(w http.ResponseWriter, r *http.Request) {
	who, done, no := a.accept(r)
	if no != nil {
		writeErrorStatus(w, no.status, no.err)
		return
	}
	defer done()
	req, err := a.requestOf(r)
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("X-Request-Id", headerText(req.ID))
	buf, no := a.body(w, r)
	if no != nil {
		writeErrorStatus(w, no.status, no.err)
		return
	}
	defer a.release(buf)
	a.run(w, r, who, req, buf.Bytes())
}

// run runs a command with the params in a body, and answers with its bare
// result or error, or with a stream.
func (a *API) run(w http.ResponseWriter, r *http.Request, who *protocol.Principal, req *protocol.Request, body []byte) {
	var err *protocol.Error
	if req.Params, err = a.params(body); err != nil {
		writeError(w, err)
		return
	}
	in := inbound(r, who, req.Append(nil))
	if a.streams(r, req.Command, req.Params) {
		a.stream(w, r, in, a.handle)
		return
	}
	a.await(w, r, in, resultOf)
}

// handle runs a request envelope and returns the response envelope.
func (a *API) handle(ctx context.Context, in commands.Inbound) []byte {
	return a.Router.Handle(ctx, in).Append(nil)
}

// params checks that the body is one JSON object, so that it is no more than
// that once it stands in an envelope. No body means no params.
func (a *API) params(body []byte) ([]byte, *protocol.Error) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return []byte("{}"), nil
	}
	if err := protocol.CheckJSON(body, a.Limits); err != nil {
		return nil, protocol.AsError(err)
	}
	if body[0] != '{' {
		return nil, protocol.InvalidParam("params", "the body must be a JSON object, the command's params")
	}
	return body, nil
}

func inbound(r *http.Request, who *protocol.Principal, body []byte) commands.Inbound {
	return commands.Inbound{Principal: who, Body: body, Door: "http", Address: address(r), Traceparent: traceparent(r), Matched: true}
}

// failure is the answer to a body that is no valid request.
func (a *API) failure(err *protocol.Error) *protocol.Response {
	return &protocol.Response{
		Version:   protocol.Version,
		Timestamp: a.Now().UnixMilli(),
		Err:       err,
		Metadata:  protocol.Metadata{SenderID: a.BridgeID},
	}
}

// statusOf is the HTTP status of an answer. One that will come later is
// announced in headers, too.
func statusOf(h http.Header, resp *protocol.Response) int {
	if resp.Err == nil {
		return accepted(h, resp.Result)
	}
	return resp.Err.Code.HTTPStatus()
}
