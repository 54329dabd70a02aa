package stdio

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// maxRefusal is the greatest size of an answer that is no message, in bytes.
const maxRefusal = 64 << 10

// send sends a message to the bridge and writes its answer.
func (p *proxy) send(ctx context.Context, m *message) {
	response, err := p.post(ctx, m)
	if err == nil && response.StatusCode == http.StatusNotFound && p.reopen(ctx, m) {
		_ = response.Body.Close()
		response, err = p.post(ctx, m)
	}
	if err != nil {
		if ctx.Err() == nil {
			p.Log.Warn("the bridge cannot be reached", "error", err)
			p.fault(m, "the bridge cannot be reached: "+err.Error())
		}
		return
	}
	defer response.Body.Close() //nolint:errcheck // nothing is written to it
	if m.Method == "initialize" {
		p.opened(response.Header.Get(sessionHeader))
	}
	p.receive(ctx, m, response)
}

// post sends one HTTP request with a message.
func (p *proxy) post(ctx context.Context, m *message) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Endpoint, bytes.NewReader(m.raw))
	if err != nil {
		return nil, err
	}
	s := p.current()
	m.sent = s.id
	m.headers(request.Header, s)
	if err := p.Identify(ctx, request.Header); err != nil {
		return nil, err
	}
	return p.HTTP.Do(request)
}

func (p *proxy) current() session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session
}

// opened remembers the id of the session.
func (p *proxy) opened(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session.id = id
}

// receive writes the bridge's answer to a message.
func (p *proxy) receive(ctx context.Context, m *message, r *http.Response) {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case r.StatusCode == http.StatusAccepted || r.StatusCode == http.StatusNoContent:
	case media == "text/event-stream" && r.StatusCode == http.StatusOK:
		answered := false
		err := events(r.Body, p.MaxLine, func(data []byte) {
			answered = p.pass(m, data) || answered
		})
		if !answered && m.calls() && ctx.Err() == nil {
			p.fault(m, fmt.Sprintf("the bridge did not finish its answer: %v", err))
		}
	case media == "application/json":
		body, err := io.ReadAll(io.LimitReader(r.Body, int64(p.MaxLine)))
		if err != nil {
			p.fault(m, "the bridge did not finish its answer: "+err.Error())
			return
		}
		p.pass(m, withID(body, m.ID, r.StatusCode))
	default:
		text, _ := io.ReadAll(io.LimitReader(r.Body, maxRefusal)) // the part before an error suffices
		p.fault(m, fmt.Sprintf("the bridge answered %s: %s", r.Status, bytes.TrimSpace(text)))
	}
}

// pass writes a message of the bridge, and reports whether it is the answer to
// m.
func (p *proxy) pass(m *message, data []byte) bool {
	var seen struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Result struct {
			Version string `json:"protocolVersion"`
		} `json:"result"`
	}
	if json.Unmarshal(data, &seen) != nil && !json.Valid(data) {
		p.fault(m, "the bridge answered with something that is not JSON")
		return true
	}
	answers := seen.Method == "" && m != nil && m.calls()
	if answers && m.Method == "initialize" {
		p.mu.Lock()
		p.session.version = seen.Result.Version
		p.mu.Unlock()
	}
	if m != nil && !m.calls() && seen.Method == "" {
		p.Log.Warn("the bridge refused a notification", "method", m.Method, "answer", string(data[:min(len(data), 1024)]))
		return true // the message requires no answer
	}
	p.write(data)
	return answers
}

// withID gives an error without an id that of the message that it is about.
func withID(body []byte, id json.RawMessage, status int) []byte {
	if status < 400 || id == nil {
		return body
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return body
	}
	if old := fields["id"]; len(old) > 0 && !bytes.Equal(old, []byte("null")) {
		return body
	}
	fields["id"] = id
	if fixed, err := json.Marshal(fields); err == nil {
		return fixed
	}
	return body
}

// fault answers a message that the bridge did not answer.
func (p *proxy) fault(m *message, text string) {
	if m != nil && m.calls() {
		p.write(failure(m.ID, codeUnreachable, text))
		return
	}
	p.Log.Warn("a message was lost", "reason", text)
}

// reopen opens a new session if a message was of one that the bridge does not know any
// more, as after a restart. It reports whether to send the message again.
func (p *proxy) reopen(ctx context.Context, m *message) bool {
	p.reopening.Lock()
	defer p.reopening.Unlock()
	p.mu.Lock()
	first, known := p.first, p.session
	p.mu.Unlock()
	if first == nil || m.stateless() || m.Method == "initialize" || known.id == "" {
		return false
	}
	if m.sent != known.id {
		return true // another goroutine has reopened it meanwhile
	}
	response, err := p.post(ctx, first)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxRefusal)) // the client has its answer already
	_ = response.Body.Close()
	id := response.Header.Get(sessionHeader)
	if response.StatusCode != http.StatusOK || id == "" {
		return false
	}
	p.opened(id)
	p.Log.Info("opened a new session")
	greeting, _ := read([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	if response, err = p.post(ctx, greeting); err == nil {
		_ = response.Body.Close()
	}
	p.write([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
	return true
}

// The pauses before a broken stream is opened anew.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 30 * time.Second
)

// listen writes the bridge's own messages in a session, until ctx ends or another
// session begins.
func (p *proxy) listen(ctx context.Context) {
	p.mu.Lock()
	if p.hearing != nil {
		p.hearing()
	}
	ctx, p.hearing = context.WithCancel(ctx) //nolint:gosec // the next session or the end of the run cancels it
	p.mu.Unlock()
	p.streams.Go(func() {
		for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, lastPause) {
			if s := p.current(); s.id != "" && p.hear(ctx, s) {
				pause = firstPause
			}
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
			}
		}
	})
}

// hear reads one stream to its end, and reports whether there was one.
func (p *proxy) hear(ctx context.Context, s session) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Endpoint, nil)
	if err != nil {
		return false
	}
	request.Header.Set("Accept", "text/event-stream")
	s.headers(request.Header)
	if err := p.Identify(ctx, request.Header); err != nil {
		return false
	}
	response, err := p.HTTP.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close() //nolint:errcheck // nothing is written to it
	if response.StatusCode != http.StatusOK {
		return false
	}
	_ = events(response.Body, p.MaxLine, func(data []byte) { p.pass(nil, data) }) // it is opened again
	return true
}

// leave ends the session.
func (p *proxy) leave(ctx context.Context) {
	s := p.current()
	if s.id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, p.Endpoint, nil)
	if err != nil {
		return
	}
	s.headers(request.Header)
	if p.Identify(ctx, request.Header) != nil {
		return
	}
	if response, err := p.HTTP.Do(request); err == nil {
		_ = response.Body.Close()
	}
}

var errLong = errors.New("an event is too long")

// events hands out the data of server-sent events until the stream ends.
func events(stream io.Reader, most int, take func(data []byte)) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(make([]byte, 0, 64<<10), most)
	var data []byte
	for lines.Scan() {
		line := lines.Text()
		switch value, ok := strings.CutPrefix(line, "data:"); {
		case line == "":
			if len(bytes.TrimSpace(data)) > 0 {
				take(data)
			}
			data = nil
		case ok && len(data)+len(value) > most:
			return errLong
		case ok:
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, strings.TrimPrefix(value, " ")...)
		}
	}
	return lines.Err()
}
