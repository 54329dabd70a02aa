package nats

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/aibridge/aibridge/protocol"
)

// A Prompt is a message to an agent.
type Prompt struct {
	Principal   *protocol.Principal
	ID          string // of the prompt, the same when it is sent again
	Agent       string // set of skills, "" for the bridge
	Text        string
	Traceparent string

	// Tell takes text of the answer as it comes, and files.
	Tell func(text string, files []File)
	// Ask puts a question to the sender of the prompt, and returns the answer.
	Ask func(ctx context.Context, question string) (string, error)
}

// A File is an attachment of an answer.
type File struct {
	Name      string
	MediaType string
	Content   []byte
}

// Bounds of conversations.
const (
	stillWorking = 20 * time.Second // between signs of life; callers lose patience after 60
	maxTextChunk = 64 << 10         // bytes of text in one message
	escaped      = 8                // bytes that one of a text may become, and room for the rest of a message
	maxEnvelope  = 4 << 10          // bytes of a message besides a file
	maxAnswer    = 64 << 10         // bytes of the answer to a question
)

// A chunk is one message of an answer.
type chunk struct {
	Type string `json:"type"`
	Data any    `json:"data"`
}

// An attachment is a file in a message.
type attachment struct {
	Filename string `json:"filename"`
	Content  []byte `json:"content"` // base64
}

// A spoken is a message of a caller: a prompt, or the answer to a question.
type spoken struct {
	Prompt      *string           `json:"prompt"`
	Attachments []json.RawMessage `json:"attachments"`
}

// hear reads a caller's message: one JSON object, or plain text.
func hear(body []byte, most int) (string, *protocol.Error) {
	if len(body) == 0 {
		return "", protocol.InvalidParam("prompt", "is empty")
	}
	if len(body) > most {
		return "", protocol.Errorf(protocol.PayloadTooLarge, "prompts may have %d bytes", most).With("limit", most)
	}
	if !utf8.Valid(body) {
		return "", protocol.InvalidParam("prompt", "is not UTF-8")
	}
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return string(body), nil
	}
	var said spoken
	switch err := json.Unmarshal(body, &said); {
	case err != nil || said.Prompt == nil:
		return "", protocol.InvalidParam("prompt", "is missing: a message that begins with { must be one JSON object with it")
	case *said.Prompt == "":
		return "", protocol.InvalidParam("prompt", "is empty")
	case len(said.Attachments) > 0:
		return "", protocol.InvalidParam("attachments", "are not taken here")
	}
	return *said.Prompt, nil
}

// A stream is the answer to a prompt, message by message.
type stream struct {
	agents *agents
	reply  string

	mu    sync.Mutex
	ended bool
}

// begin makes the answer to a request one of an agent.
func (a *agents) begin(r *request) { r.stream = &stream{agents: a, reply: r.Reply} }

// prompt has the agent answer that the subject names.
func (a *agents) prompt(r *request) *protocol.Response {
	if r.Reply == "" {
		return a.door.failure(protocol.InvalidParam("reply", "is missing"))
	}
	text, err := hear(r.Data, a.maxPayload())
	if err != nil {
		return a.door.failure(err)
	}
	name, err := a.addressed(r.Subject)
	if err != nil {
		return a.door.failure(err)
	}
	if err := a.door.Agents.Admit(r.who, len(r.Data)); err != nil {
		return a.door.failure(protocol.AsError(err))
	}
	r.stream.send(chunk{"status", "ack"})
	quiet := r.stream.live()
	defer quiet()
	failure := a.door.Agents.Prompt(a.door.ctx, &Prompt{
		Principal: r.who, ID: cmp.Or(r.Header.Get(idHeader), protocol.NewID()), Agent: name, Text: text, Traceparent: r.Header.Get(traceHeader),
		Tell: r.stream.tell, Ask: func(ctx context.Context, question string) (string, error) { return a.ask(ctx, r, question) },
	})
	if failure != nil {
		return a.door.failure(protocol.AsError(failure))
	}
	return &protocol.Response{}
}

// addressed is the set of skills that a subject names, "" for the bridge.
func (a *agents) addressed(subject string) (string, *protocol.Error) {
	token := strings.TrimPrefix(subject, a.subject(promptVerb, ""))
	if token == bridgeAgent {
		return "", nil
	}
	name, err := topicOf(token)
	if err != nil {
		return "", protocol.Errorf(protocol.NotFound, "there is no such agent here, or none for you")
	}
	return name, nil
}

// ask puts a question to the sender of a prompt. A sender that showed a credential with
// the prompt must show it with the answer: others may hear the subject of the answer.
func (a *agents) ask(ctx context.Context, r *request, question string) (string, error) {
	answers, err := expectOne(a.door.conn)
	if err != nil {
		return "", protocol.Wrap(protocol.TargetUnavailable, err, "NATS takes no subscription")
	}
	defer func() { _ = answers.Unsubscribe() }() // the connection may be gone
	r.stream.send(chunk{"query", map[string]string{"id": protocol.NewID(), "reply_subject": answers.Subject, "prompt": question}})
	answer, err := answers.NextMsgWithContext(ctx)
	if err != nil {
		return "", protocol.AsError(err)
	}
	shown := headers(r.Header)
	if shown.Get("Authorization") != "" || shown.Get("X-Api-Key") != "" {
		who, err := a.door.Authenticate(ctx, headers(answer.Header), "")
		if err != nil || who.Party() != r.who.Party() {
			return "", protocol.Errorf(protocol.PermissionDenied, "the answer shows another credential than the prompt, or none")
		}
	}
	text, failure := hear(answer.Data, maxAnswer)
	if failure != nil {
		return "", failure
	}
	return text, nil
}

// expectOne subscribes to a subject of its own for one message: the server delivers no
// further ones, which would wait here unread, up to the 64 MiB of the client's library.
func expectOne(conn *nats.Conn) (*nats.Subscription, error) {
	answers, err := conn.SubscribeSync(conn.NewInbox())
	if err != nil {
		return nil, err
	}
	if err := answers.AutoUnsubscribe(1); err != nil {
		_ = answers.Unsubscribe() // the connection may be gone
		return nil, err
	}
	return answers, nil
}

// end sends the end of an answer.
func (a *agents) end(r *request, err *protocol.Error) {
	if r.who != nil {
		token := strings.TrimPrefix(r.Subject, a.subject(promptVerb, ""))
		a.tally.note(string(r.who.Home())+" "+token, r.began, err, true)
	}
	r.stream.end(err)
}

// live sends signs of life while the agent works in silence, until quiet is called.
func (s *stream) live() (quiet func()) {
	ctx, quiet := context.WithCancel(s.agents.door.ctx)
	ticker := time.NewTicker(stillWorking)
	s.agents.door.running.Go(func() {
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.send(chunk{"status", "working"})
			case <-ctx.Done():
				return
			}
		}
	})
	return quiet
}

// tell sends text, in as many messages as it needs, and each file in one of its own.
func (s *stream) tell(text string, files []File) {
	most := int(s.agents.door.conn.MaxPayload())
	size := max(min(maxTextChunk, most/escaped), utf8.UTFMax)
	for len(text) > size {
		n := size
		for !utf8.RuneStart(text[n]) {
			n--
		}
		s.send(chunk{"response", text[:n]})
		text = text[n:]
	}
	if text != "" {
		s.send(chunk{"response", text})
	}
	for i := range files {
		name := fileName(&files[i], i)
		if len(files[i].Content)*4/3+maxEnvelope > most {
			s.send(chunk{"response", "\n(" + name + " is too large for a message)"})
			continue
		}
		s.send(chunk{"response", map[string]any{"text": "", "attachments": []attachment{{name, files[i].Content}}}})
	}
}

// fileName is the name of a file, made up for one without. Its extension tells callers
// the type of the content.
func fileName(f *File, i int) string {
	if f.Name != "" {
		return f.Name
	}
	name := "file-" + strconv.Itoa(i+1)
	if ends, err := mime.ExtensionsByType(f.MediaType); err == nil && len(ends) > 0 {
		name += ends[0]
	}
	return name
}

// send publishes one message of the answer.
func (s *stream) send(c chunk) {
	body, err := json.Marshal(c)
	if err != nil {
		s.agents.door.Log.Warn("an agent's answer in NATS", "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.publish(&nats.Msg{Subject: s.reply, Data: body})
}

// end sends the error, if there is one, and the empty message after which nothing
// comes any more.
func (s *stream) end(err *protocol.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.reply == "" {
		return
	}
	if err != nil {
		m := nats.NewMsg(s.reply)
		fail(m, err)
		s.publish(m)
	}
	s.publish(&nats.Msg{Subject: s.reply})
}

func (s *stream) publish(m *nats.Msg) {
	if err := s.agents.door.conn.PublishMsg(m); err != nil {
		s.agents.door.Log.Warn("an agent's answer in NATS is not sent", "error", err)
	}
}

// fail makes a message an error message, with a code of the protocol of agents.
func fail(m *nats.Msg, err *protocol.Error) {
	m.Header.Set(micro.ErrorCodeHeader, strconv.Itoa(agentStatus(err.Code)))
	m.Header.Set(micro.ErrorHeader, headerText(err.Message))
	told := map[string]any{"error": strings.ReplaceAll(strings.ReplaceAll(err.Code.String(), " ", "_"), "-", "_"), "code": err.Code, "message": err.Message}
	if len(err.Details) > 0 {
		told["details"] = err.Details
	}
	m.Data, _ = json.Marshal(told) // a body is no must
}

// agentStatus is the code of an error in the protocol of agents.
func agentStatus(code protocol.Code) int {
	switch status := code.HTTPStatus(); status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests:
		return status
	case http.StatusServiceUnavailable:
		return http.StatusTooManyRequests
	default:
		if status < http.StatusInternalServerError {
			return http.StatusBadRequest
		}
		return http.StatusInternalServerError
	}
}
