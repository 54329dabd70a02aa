package http

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A Southbound answers requests of the southbound dialect
// (docs/protocol.md#the-southbound-dialect). *southbound.Translator is one.
type Southbound interface {
	Handle(ctx context.Context, in commands.Inbound) *protocol.SouthboundResponse
	// Refuse answers a request that is not to be run.
	Refuse(body []byte, err *protocol.Error) *protocol.SouthboundResponse
}

// An llmDoor is a path of the LLM protocol. It takes a southbound request and
// answers in kind, or the bare params of the command and answers with its bare
// result.
type llmDoor struct {
	api                *API
	command, operation string
}

// llmPaths are the paths of the LLM protocol (docs/llm.md#the-llm-protocol).
var llmPaths = [...]struct {
	path, command, operation string
	get                      bool // takes GET too
}{
	{"/api/mcp-agent/llm/query", "llm.query", "execute-llm-query", false},
	{"/api/mcp-agent/llm/advanced-query", "llm.advanced-query", "execute-llm-advanced-query", false},
	{"/api/mcp-agent/llm/status", "llm.status", "get-llm-status", true},
	{"/api/mcp-agent/llm/models", "llm.models", "list-llm-models", true},
}

func (a *API) routeLLM(mux *http.ServeMux) {
	for _, p := range llmPaths {
		m := methods{post: llmDoor{a, p.command, p.operation}.serve}
		if p.get {
			m.get = m.post
		}
		mux.Handle(p.path, compress(m))
	}
}

// addLLMPaths describes the paths whose commands are in the set.
func addLLMPaths(paths object, set *commands.Set) {
	southbound := func(inner any, status bool) object {
		members := object{"protocol_version": object{"type": "string"}, "command_id": object{"type": "string"}, "payload": inner}
		if status {
			members["status"] = object{"enum": []string{"success", "failed"}}
		} else {
			members["operation"] = object{"type": "string"}
		}
		return object{"type": "object", "title": "southbound", "required": []string{"protocol_version", "command_id"}, "properties": members}
	}
	for _, p := range llmPaths {
		c, ok := set.Find(p.command)
		if !ok {
			continue
		}
		op := commandOperation(c)
		op["operationId"] = p.operation
		op["summary"] = c.Summary + " A southbound request is answered in kind."
		params, result := embedded(c.ParamsSchema()), embedded(c.ResultSchema())
		op["requestBody"] = object{"required": !p.get, "content": jsonContent(object{"anyOf": []any{params, southbound(params, false)}})}
		success := op["responses"].(object)["200"].(object)["content"].(object)
		success["application/json"] = object{"schema": object{"anyOf": []any{result, southbound(result, true)}}}
		paths[p.path] = object{"post": op}
		if p.get {
			responses := errorResponses(c.Errors)
			responses["200"] = object{"description": "The result.", "content": jsonContent(result)}
			paths[p.path] = object{"post": op, "get": object{
				"operationId": p.operation + "-get", "summary": c.Summary, "tags": op["tags"], "responses": responses,
			}}
		}
	}
}

func (d llmDoor) serve(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 && r.Method != http.MethodPost { // a GET without a body, as usual
		r.Header.Set("Content-Type", "application/json")
	}
	who, done, no := d.api.accept(r)
	if no != nil {
		d.refuse(w, r, no)
		return
	}
	defer done()
	req, err := d.api.requestOf(r)
	if err != nil {
		writeError(w, err)
		return
	}
	buf, no := d.api.body(w, r)
	if no != nil {
		writeErrorStatus(w, no.status, no.err)
		return
	}
	defer d.api.release(buf)
	if d.api.Southbound != nil && protocol.IsSouthbound(buf.Bytes()) {
		d.southbound(w, r, inbound(r, who, buf.Bytes()))
		return
	}
	req.Command = d.command
	w.Header().Set("X-Request-Id", headerText(req.ID))
	d.api.run(w, r, who, req, buf.Bytes())
}

// southbound answers a southbound request. It must be for the operation of
// the path.
func (d llmDoor) southbound(w http.ResponseWriter, r *http.Request, in commands.Inbound) {
	req, err := protocol.DecodeSouthbound(in.Body, d.api.Limits)
	if err == nil && req.Operation != d.operation {
		err = protocol.InvalidParam("operation", "must be "+d.operation+" at this path")
	}
	if err != nil {
		writeSouthbound(w, d.api.Southbound.Refuse(in.Body, protocol.AsError(err)))
		return
	}
	d.api.southbound(w, r, in)
}

// southbound answers a southbound request, in one piece or with a stream.
func (a *API) southbound(w http.ResponseWriter, r *http.Request, in commands.Inbound) {
	req, _ := protocol.DecodeSouthbound(in.Body, a.Limits) // its faults are answered below
	if wantsEvents(r) || takesAnything(r) && asksToStream(req.Payload) {
		a.stream(w, r, in, func(ctx context.Context, in commands.Inbound) []byte {
			return a.Southbound.Handle(ctx, in).Append(nil)
		})
		return
	}
	writeSouthbound(w, a.Southbound.Handle(r.Context(), in))
}

// refusedBody is the part of a refused request that is read to see its dialect.
const refusedBody = 16 << 10

// refuse answers a request that was refused before it was read, in its dialect if that is
// easy to see.
func (d llmDoor) refuse(w http.ResponseWriter, r *http.Request, no *refusal) {
	if d.api.Southbound != nil && r.ContentLength > 0 && r.ContentLength <= refusedBody {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, refusedBody))
		if err == nil && protocol.IsSouthbound(body) {
			writeSouthbound(w, d.api.Southbound.Refuse(body, no.err))
			return
		}
	}
	writeErrorStatus(w, no.status, no.err)
}

// writeSouthbound answers with a southbound envelope and the status of its
// code.
func writeSouthbound(w http.ResponseWriter, resp *protocol.SouthboundResponse) {
	status := http.StatusOK
	if resp.Err != nil {
		status = resp.Err.Code.HTTPStatus()
		hintRetry(w.Header(), resp.Err)
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="aibridge"`)
	}
	setHeader(w.Header(), "X-Request-Id", resp.CommandID)
	writeBody(w, status, append(resp.Append(nil), '\n'))
}

// streams reports whether a request is to be answered with an event stream:
// the client asks for one, or its params do and it accepts any media type.
func (a *API) streams(r *http.Request, command string, params []byte) bool {
	if wantsEvents(r) {
		return true
	}
	c, ok := a.Set.Find(command)
	return ok && c.Streams && takesAnything(r) && bytes.Contains(params, []byte(`"stream"`)) && asksToStream(params)
}
