package servers

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/protocol"
)

// An underway call hears what the server says meanwhile.
type underway struct {
	who  protocol.Party
	emit func(event string, data any)
}

// A step is the data of task.progress.
type step struct {
	Percent float64 `json:"percent"`
	Message string  `json:"message"`
	// As the server counts, whose total may not be known.
	Progress float64 `json:"progress"`
	Total    float64 `json:"total,omitempty"`
}

// A logLine is the data of task.log.
type logLine struct {
	Level  string `json:"level"`
	Logger string `json:"logger,omitempty"`
	Text   string `json:"text"`
}

// Bounds of what a server says meanwhile, in bytes.
const (
	maxStep = 1024
	maxLog  = 8 << 10
)

// logLevel is from what level on servers are asked to tell what they log.
const logLevel sdk.LoggingLevel = "info"

// listen asks a server to tell what it logs. One that cannot is no worse for
// it.
func (l *connection) listen(ctx context.Context, session *sdk.ClientSession) {
	hello := session.InitializeResult()
	if hello == nil || hello.Capabilities == nil || hello.Capabilities.Logging == nil {
		return
	}
	if err := session.SetLoggingLevel(ctx, &sdk.SetLoggingLevelParams{Level: logLevel}); err != nil {
		l.service.opts.Log.Debug("an MCP server does not tell what it logs", "server", l.config.Name, "error", l.told(err))
	}
}

// follow has a call told what the server says meanwhile, until stop is called.
func (l *connection) follow(token string, call *underway) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.caller == (protocol.Party{}) {
		l.caller = call.who
	}
	l.shared = l.shared || l.caller != call.who
	l.calls[token] = call
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.calls, token)
	}
}

// alone notes that a session begins, in which no principal has called.
func (l *connection) alone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.caller, l.shared = protocol.Party{}, false
}

// step tells the caller the progress of a call.
func (l *connection) step(p *sdk.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	l.mu.Lock()
	call := l.calls[token]
	l.mu.Unlock()
	if call == nil {
		return
	}
	s := step{Message: short(p.Message, maxStep), Progress: p.Progress, Total: p.Total}
	if p.Total > 0 {
		s.Percent = min(max(100*p.Progress/p.Total, 0), 100)
	}
	call.emit("task.progress", s)
}

// logged passes on log messages of the server: to operators in the bridge's log, and to
// the calls under way, if one principal alone has called in this session. A log message
// does not name its call and may come after the answer, so it could be about a call of
// any principal that has called.
func (l *connection) logged(p *sdk.LoggingMessageParams) {
	line := l.line(p)
	for _, call := range l.hearers() {
		call.emit("task.log", line)
	}
}

// line is a log message of a server. It also goes to the bridge's log.
func (l *connection) line(p *sdk.LoggingMessageParams) logLine {
	line := logLine{Level: short(string(p.Level), 16), Logger: short(p.Logger, 128), Text: short(textOf(p.Data), maxLog)}
	l.service.opts.Log.Log(context.Background(), slog.LevelDebug, "an MCP server logs", "server", l.config.Name, "level", line.Level, "logger", line.Logger, "text", line.Text)
	return line
}

// hearers are the calls under way, none if several principals have called.
func (l *connection) hearers() []*underway {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shared {
		return nil
	}
	return slices.Collect(maps.Values(l.calls))
}

// textOf is the log entry of a server, as a text.
func textOf(data any) string {
	if text, ok := data.(string); ok {
		return text
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return ""
	}
	return string(raw)
}
