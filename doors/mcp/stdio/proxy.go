package stdio

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// Options configure [Run]. All but MaxLine and Log are needed.
type Options struct {
	Endpoint string                                         // URL of the MCP endpoint
	HTTP     *http.Client                                   // without a timeout: calls may take long
	Identify func(ctx context.Context, h http.Header) error // adds the credential
	In       io.Reader
	Out      io.Writer
	MaxLine  int // bytes of one message, default 16 MiB
	Log      *slog.Logger
}

// The number of messages that may be under way at once, and the time that these have
// after the end of the input.
const (
	maxUnderWay = 64
	patience    = 5 * time.Second
)

// Run carries messages until the input ends or ctx does. It fails only if the
// input cannot be read or the output not be written.
func Run(ctx context.Context, o Options) error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxLine == 0 {
		o.MaxLine = 16 << 20
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &proxy{Options: o, slots: make(chan struct{}, maxUnderWay), open: make(map[string]context.CancelFunc), fail: cancel}
	lines := make(chan []byte)
	ended := make(chan error, 1)
	go func() { ended <- p.scan(ctx, lines) }()
	for {
		select {
		case line := <-lines:
			p.take(ctx, line)
			continue
		case err := <-ended:
			p.drain()
			p.end(ctx, cancel)
			return errors.Join(err, p.broken())
		case <-ctx.Done():
			p.end(ctx, cancel)
			return p.broken()
		}
	}
}

func (p *proxy) end(ctx context.Context, cancel context.CancelFunc) {
	cancel()
	p.calls.Wait()
	p.streams.Wait()
	p.leave(context.WithoutCancel(ctx))
}

// A proxy is the state of one run.
type proxy struct {
	Options
	fail    context.CancelFunc
	slots   chan struct{}
	calls   sync.WaitGroup // under way
	streams sync.WaitGroup // that listen to the bridge

	reopening sync.Mutex // held while a session is opened anew

	mu      sync.Mutex
	session session
	first   *message                      // the initialize request, to repeat after a restart of the bridge
	hearing context.CancelFunc            // ends the stream that listens
	open    map[string]context.CancelFunc // calls without a session, by id
	writing error                         // error of the output
}

// A session is a session with the bridge, in versions with sessions.
type session struct {
	id, version string
}

func (s session) headers(h http.Header) {
	if s.id != "" {
		h.Set(sessionHeader, s.id)
	}
	if s.version != "" {
		h.Set(versionHeader, s.version)
	}
}

// scan reads lines until the input ends.
func (p *proxy) scan(ctx context.Context, lines chan<- []byte) error {
	scanner := bufio.NewScanner(p.In)
	scanner.Buffer(make([]byte, 0, 64<<10), p.MaxLine)
	for scanner.Scan() {
		line := bytes.Clone(bytes.TrimSpace(scanner.Bytes()))
		if len(line) == 0 {
			continue
		}
		select {
		case lines <- line:
		case <-ctx.Done():
			return nil
		}
	}
	return scanner.Err()
}

// take forwards one message. A message without an answer, and one that opens a session,
// is sent before the next message is read.
func (p *proxy) take(ctx context.Context, line []byte) {
	m, ok := read(line)
	switch {
	case !ok:
		p.write(failure(nil, codeParse, "the line is not JSON"))
	case line[0] != '{':
		p.write(failure(nil, codeRequest, "the line is no single JSON-RPC message"))
	case m.calls() && m.Method != "initialize" && !m.stateless() && !p.begun():
		p.early(m)
	case m.Method == "notifications/cancelled" && p.cancel(m.Params.RequestID):
		// Versions without sessions cancel by hanging up.
	case m.Method == "initialize" && m.calls():
		p.mu.Lock()
		p.first, p.session = m, session{}
		p.mu.Unlock()
		p.send(ctx, m)
		p.listen(ctx)
	case !m.calls():
		p.send(ctx, m)
	default:
		p.call(ctx, m)
	}
}

// begun reports whether the client has asked for a session.
func (p *proxy) begun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first != nil
}

// early answers a call before there is a session, which the bridge does not accept:
// only ping is allowed.
func (p *proxy) early(m *message) {
	if m.Method == "ping" {
		p.write(append(append([]byte(`{"jsonrpc":"2.0","id":`), m.ID...), `,"result":{}}`...))
		return
	}
	p.write(failure(m.ID, codeRequest, "initialize comes first"))
}

// call forwards a call, concurrently with others.
func (p *proxy) call(ctx context.Context, m *message) {
	select {
	case p.slots <- struct{}{}:
	default:
		p.write(failure(m.ID, codeUnreachable, "too many calls are under way"))
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	if m.stateless() {
		p.remember(m.ID, cancel)
	}
	p.calls.Go(func() {
		defer func() { <-p.slots }()
		defer cancel()
		defer p.forget(m.ID)
		p.send(ctx, m)
	})
}

func (p *proxy) remember(id json.RawMessage, cancel context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[string(id)] = cancel
}

func (p *proxy) forget(id json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, string(id))
}

// cancel hangs up on a call without a session, and reports whether there is
// one of the id.
func (p *proxy) cancel(id json.RawMessage) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	cancel, ok := p.open[string(id)]
	if ok {
		cancel()
	}
	return ok
}

// write writes a message. If that fails, their reader is gone.
func (p *proxy) write(line []byte) {
	if bytes.ContainsAny(line, "\n\r") {
		var compact bytes.Buffer
		if json.Compact(&compact, line) != nil {
			return
		}
		line = compact.Bytes()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writing != nil {
		return
	}
	if _, p.writing = p.Out.Write(append(bytes.Clone(line), '\n')); p.writing != nil {
		p.fail()
	}
}

func (p *proxy) broken() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writing
}

// drain waits for the calls under way, for a while.
func (p *proxy) drain() {
	done := make(chan struct{})
	go func() { p.calls.Wait(); close(done) }()
	patience := time.NewTimer(patience)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
	}
}
