package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/internal/httpbody"
	"github.com/aibridge/aibridge/protocol"
)

// Headers of streamable HTTP.
const (
	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
)

// firstStateless is the first version of MCP without sessions. Versions are
// dates and compare as text.
const firstStateless = "2026-07-28"

// writeTimeout is the time that a piece of an answer may take to leave.
const writeTimeout = 30 * time.Second

// handlers returns the handlers of the SDK, for versions with and without sessions.
// They find the principal in the context, in the place of the SDK's bearer tokens, for
// every kind of credential: so a session is bound to its principal.
func (d *Door) handlers() (stateful, stateless http.Handler) {
	guest := func(r *http.Request) *sdk.Server { return d.guests.of(principalOf(r.Context())).server }
	options := sdk.StreamableHTTPOptions{
		SessionTimeout:               d.opts.Idle,
		MaxRequestBodyBytes:          int64(d.opts.MaxBytes),
		DisableLocalhostProtection:   true, // the API's guard checks the host
		PropagateRequestCancellation: true,
	}
	known := auth.RequireBearerToken(
		func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
			who := principalOf(ctx)
			return &auth.TokenInfo{UserID: party(who), Extra: map[string]any{principalExtra: who}}, nil
		},
		&auth.RequireBearerTokenOptions{AllowMissingExpiration: true},
	)
	sessionless := options
	options.EventStore = newReplay()
	sessionless.Stateless = true
	return known(sdk.NewStreamableHTTPHandler(guest, &options)), known(sdk.NewStreamableHTTPHandler(guest, &sessionless))
}

// principalExtra is the key of the principal in the part that the SDK keeps of a token.
const principalExtra = "aibridge/principal"

type principalKey struct{}

// principalOf returns the principal of a context's request, or the current principal of
// its conversation.
func principalOf(ctx context.Context) *protocol.Principal {
	switch who := ctx.Value(principalKey{}).(type) {
	case *protocol.Principal:
		return who
	case func() *protocol.Principal:
		return who()
	}
	return nil
}

// ServeHTTP serves the MCP endpoint.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who, err := d.opts.Authenticate(r)
	if err != nil || who == nil {
		d.refuse(w, r, protocol.AsError(err))
		return
	}
	ctx, done, refusal := d.requests.begin(r.Context(), who)
	if refusal != nil {
		writeRefusal(w, jsonrpc.ID{}, refusal)
		return
	}
	defer done()
	if r.Method == http.MethodGet && d.opts.Leaving != nil { // it would listen for ever
		var end context.CancelFunc
		ctx, end = context.WithCancel(ctx)
		defer end()
		defer context.AfterFunc(d.opts.Leaving, end)()
	}
	r = r.WithContext(ctx)
	plainName(r)

	sessionless := r.Header.Get(versionHeader) >= firstStateless
	answer := &writer{ResponseWriter: w}
	if r.Method == http.MethodPost {
		body, ok := d.body(w, r)
		if !ok {
			return
		}
		message := peek(body)
		answer.id = message.id
		sessionless = sessionless || message.Params.Meta.Version >= firstStateless
		if !d.admit(w, r, who, &message, sessionless) || d.serveDirect(w, r, who, &message, sessionless) ||
			sessionless && d.serveTasks(w, r, who, &message) {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	r.Header = r.Header.Clone()
	r.Header.Set("Authorization", "Bearer -") // the secret goes no further
	r.Header.Del("X-Api-Key")
	if sessionless {
		d.stateless.ServeHTTP(answer, r)
		return
	}
	d.stateful.ServeHTTP(answer, r)
}

// nameHeader is the header with the called or read name, in base64 if it has characters
// that headers cannot have.
const nameHeader = "Mcp-Name"

// plainName decodes the name in the header, since the SDK compares it undecoded.
func plainName(r *http.Request) {
	text, encoded := strings.CutPrefix(r.Header.Get(nameHeader), "=?base64?")
	text, whole := strings.CutSuffix(text, "?=")
	if name, err := base64.StdEncoding.DecodeString(text); encoded && whole && err == nil {
		r.Header = r.Header.Clone()
		r.Header.Set(nameHeader, string(name))
	}
}

// refuse answers a caller that is not admitted.
func (d *Door) refuse(w http.ResponseWriter, r *http.Request, err *protocol.Error) {
	if err == nil {
		err = protocol.Errorf(protocol.NotAuthenticated, "show a credential in the Authorization header")
	}
	if err.Code.HTTPStatus() == http.StatusUnauthorized {
		challenge := `Bearer realm="aibridge"`
		if err.Code == protocol.CredentialInvalid {
			challenge += `, error="invalid_token"`
		}
		if url := d.opts.Metadata(r); url != "" {
			challenge += `, resource_metadata=` + strconv.Quote(url)
		}
		w.Header().Set("WWW-Authenticate", challenge)
	}
	writeRefusal(w, jsonrpc.ID{}, err)
}

// body reads the body of a POST.
func (d *Door) body(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	if !isJSON(r.Header.Get("Content-Type")) {
		writeRPCError(w, http.StatusUnsupportedMediaType, jsonrpc.ID{}, jsonrpc.CodeInvalidRequest, "the body must be sent as Content-Type: application/json", nil)
		return nil, false
	}
	body, err := readAll(httpbody.New(w, r, int64(d.opts.MaxBytes)), r.ContentLength)
	if over := new(http.MaxBytesError); errors.As(err, &over) {
		writeRefusal(w, jsonrpc.ID{}, protocol.Errorf(protocol.PayloadTooLarge, "requests may have %d bytes", over.Limit).With("limit", over.Limit))
		return nil, false
	}
	if err != nil {
		w.Header().Set("Connection", "close")
		writeRPCError(w, http.StatusBadRequest, jsonrpc.ID{}, jsonrpc.CodeInvalidRequest, "the body did not arrive", nil)
		return nil, false
	}
	return body, true
}

// isJSON reports whether a type of content is that of JSON, with whatever parameters.
func isJSON(said string) bool {
	const want = "application/json"
	if said == want {
		return true
	}
	media, _, err := mime.ParseMediaType(said)
	return err == nil && media == want
}

// mostTrusted is the announced length of a body up to which memory for it is taken before
// it comes, in bytes.
const mostTrusted = 16 << 10

// readAll is [io.ReadAll] for a body whose length was announced, or -1.
func readAll(body io.Reader, length int64) ([]byte, error) {
	if length < 0 || length > mostTrusted {
		return io.ReadAll(body)
	}
	buf := bytes.NewBuffer(make([]byte, 0, length+bytes.MinRead)) // which ReadFrom wants free at the end
	_, err := buf.ReadFrom(body)
	return buf.Bytes(), err
}

// admit answers requests that the SDK would answer less precisely, and those beyond a
// limit. It reports whether it left the request to the SDK.
func (d *Door) admit(w http.ResponseWriter, r *http.Request, who *protocol.Principal, m *message, sessionless bool) bool {
	version, session := r.Header.Get(versionHeader), r.Header.Get(sessionHeader)
	switch {
	case m.malformed:
		writeRPCError(w, http.StatusBadRequest, jsonrpc.ID{}, jsonrpc.CodeParseError, "the body is not JSON", nil)
	case version != "" && !known(version) && m.Params.Meta.Version == "":
		writeRPCError(w, http.StatusBadRequest, m.id, jsonrpc.CodeInvalidRequest, "there is no version "+strconv.Quote(bounded(version, 64))+" of the protocol here", nil)
	case !sessionless && session == "" && !slices.Contains(openers, m.Method):
		writeRPCError(w, http.StatusBadRequest, m.id, jsonrpc.CodeInvalidRequest, "the header "+sessionHeader+" is missing: initialize opens a session", nil)
	case !sessionless && session != "" && !d.sessions.has(session, who):
		return true // the SDK has a precise answer
	case m.fault != nil && !(sessionless && slices.Contains(sessionMethods, m.Method)):
		writeRPCError(w, m.fault.status(), m.id, m.fault.code, m.fault.text, nil)
	case m.Method == initializeMethod && session != "":
		writeRPCError(w, http.StatusBadRequest, m.id, jsonrpc.CodeInvalidRequest, "the session is initialized already", nil)
	case m.Method != "" && m.id.IsValid() && !d.serves(m, sessionless):
		status := http.StatusOK
		if sessionless {
			status = http.StatusNotFound
		}
		writeRPCError(w, status, m.id, jsonrpc.CodeMethodNotFound, "there is no method "+strconv.Quote(bounded(m.Method, 64)), nil)
	case m.Method != "" && len(m.ID) == 0 && !slices.Contains(notifications, m.Method) && !slices.Contains(methods, m.Method):
		w.WriteHeader(http.StatusAccepted) // unknown notifications are ignored
	case !sessionless && session == "" && m.Method == initializeMethod:
		full := d.sessions.hasRoom(who)
		if full != nil {
			writeRefusal(w, m.id, full)
		}
		return full == nil
	default:
		return true
	}
	return false
}

// serves reports whether there is a method, in versions with or without sessions.
func (d *Door) serves(m *message, sessionless bool) bool {
	if sessionless && slices.Contains(sessionMethods, m.Method) {
		return false
	}
	return slices.Contains(methods, m.Method) || sessionless && d.opts.Tasks != nil && m.onTasks()
}

// initializeMethod opens a session.
const initializeMethod = "initialize"

// levelMethod sets the level of a session's log.
const levelMethod = "logging/setLevel"

// openers are the methods that need no session, in versions with sessions.
var openers = []string{initializeMethod, "server/discover"}

// notifications are the notifications that clients may send.
var notifications = []string{
	"notifications/initialized", cancelledMethod, "notifications/progress", "notifications/roots/list_changed",
}

// listening are the methods with notifications after their answer.
var listening = []string{listenMethod, subscribeMethod, unsubscribeMethod}

// Methods of versions with sessions, about a resource.
const (
	subscribeMethod   = "resources/subscribe"
	unsubscribeMethod = "resources/unsubscribe"
)

// sessionMethods are the methods that versions without sessions do not have.
var sessionMethods = []string{levelMethod, subscribeMethod, unsubscribeMethod}

// methods are the methods that clients may call.
var methods = []string{
	initializeMethod, "ping", "server/discover", listenMethod, levelMethod, "completion/complete",
	"tools/list", "tools/call", "prompts/list", "prompts/get",
	"resources/list", "resources/templates/list", "resources/read", subscribeMethod, unsubscribeMethod,
}

// A writer makes JSON-RPC errors of the SDK's refusals in plain text.
type writer struct {
	http.ResponseWriter
	id      jsonrpc.ID
	refused bool
}

// WriteHeader implements [http.ResponseWriter].
func (w *writer) WriteHeader(status int) {
	h := w.Header()
	if status >= 400 && strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
		w.refused = true
		h.Set("Content-Type", "application/json")
		h.Del("Content-Length")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *writer) Write(p []byte) (int, error) {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout)) // for a reader that stands still
	if !w.refused {
		return w.ResponseWriter.Write(p)
	}
	if _, err := w.ResponseWriter.Write(rpcError(w.id, jsonrpc.CodeInvalidRequest, strings.TrimSpace(string(p)), nil)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Unwrap is for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements [http.Flusher].
func (w *writer) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// writeRefusal answers with an error of the bridge's.
func writeRefusal(w http.ResponseWriter, id jsonrpc.ID, err *protocol.Error) {
	if wait, ok := err.Details["retry_after_ms"].(int64); ok {
		w.Header().Set("Retry-After", strconv.FormatInt((wait+999)/1000, 10))
	}
	writeRPCError(w, err.Code.HTTPStatus(), id, rpcCode(err), err.Message, errorData(err))
}

func writeRPCError(w http.ResponseWriter, status int, id jsonrpc.ID, code int64, text string, data json.RawMessage) {
	writeMessage(w, status, rpcError(id, code, text, data))
}

// writeMessage answers with one message.
func writeMessage(w http.ResponseWriter, status int, body []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have disconnected
}

func rpcError(id jsonrpc.ID, code int64, text string, data json.RawMessage) []byte {
	body, err := json.Marshal(struct {
		Version string        `json:"jsonrpc"`
		ID      any           `json:"id"`
		Error   jsonrpc.Error `json:"error"`
	}{"2.0", id.Raw(), jsonrpc.Error{Code: code, Message: text, Data: data}})
	if err != nil {
		return []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}}`)
	}
	return body
}
