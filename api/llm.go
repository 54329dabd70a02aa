package api

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A Southbound answers requests of the southbound dialect (PROTOCOL §6).
// *southbound.Translator is one.
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

// llmRoutes are the paths of the LLM protocol (source §17.2).
func (a *API) llmRoutes() map[string]http.Handler {
	door := func(command, operation string) http.HandlerFunc { return llmDoor{a, command, operation}.serve }
	status, models := door("llm.status", "get-llm-status"), door("llm.models", "list-llm-models")
	return map[string]http.Handler{
		"/api/mcp-agent/llm/query":          methods{post: door("llm.query", "execute-llm-query")},
		"/api/mcp-agent/llm/advanced-query": methods{post: door("llm.advanced-query", "execute-llm-advanced-query")},
		"/api/mcp-agent/llm/status":         methods{get: status, post: status},
		"/api/mcp-agent/llm/models":         methods{get: models, post: models},
	}
}

func (d llmDoor) serve(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 && r.Method != http.MethodPost { // GET as everybody sends it
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
	if d.api.streams(r, d.command, req.Payload) {
		d.api.stream(w, r, in, func(ctx context.Context, in commands.Inbound) []byte {
			return d.api.Southbound.Handle(ctx, in).Append(nil)
		})
		return
	}
	writeSouthbound(w, d.api.Southbound.Handle(r.Context(), in))
}

// refusedBody is how much of a refused request is read to see its dialect.
const refusedBody = 16 << 10

// refuse answers a request that nobody may make, in its dialect if that is
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
// the client asks for one, or its params do and it takes whatever comes.
func (a *API) streams(r *http.Request, command string, params []byte) bool {
	if wantsEvents(r) {
		return true
	}
	c, ok := a.Set.Find(command)
	return ok && c.Streams && takesAnything(r) && bytes.Contains(params, []byte(`"stream"`)) && asksToStream(params)
}
