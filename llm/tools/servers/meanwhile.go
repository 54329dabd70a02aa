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

// An underway is a call in progress, which receives progress and logs of the server.
type underway struct {
	who  protocol.Party
	emit func(event string, data any)
}

// A step is the data of task.progress.
type step struct {
	Percent float64 `json:"percent"`
	Message string  `json:"message"`
	// Progress and Total are in units of the server; Total is 0 if unknown.
	Progress float64 `json:"progress"`
	Total    float64 `json:"total,omitempty"`
}

// A logLine is the data of task.log.
type logLine struct {
	Level  string `json:"level"`
	Logger string `json:"logger,omitempty"`
	Text   string `json:"text"`
}

// The bounds of a server's messages during a call, in bytes.
const (
	maxStep = 1024
	maxLog  = 8 << 10
)

// logLevel is the lowest level of the logs that servers are asked to send.
const logLevel sdk.LoggingLevel = "info"

// listen asks a server to send its logs. A failure is ignored.
func (l *connection) listen(ctx context.Context, session *sdk.ClientSession) {
	hello := session.InitializeResult()
	if hello == nil || hello.Capabilities == nil || hello.Capabilities.Logging == nil {
		return
	}
	if err := session.SetLoggingLevel(ctx, &sdk.SetLoggingLevelParams{Level: logLevel}); err != nil {
		l.service.opts.Log.Debug("an MCP server does not send its logs", "server", l.config.Name, "error", l.told(err))
	}
}

// follow registers a call for the progress and logs of the server, until stop is
// called.
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

// alone resets the callers at the beginning of a session.
func (l *connection) alone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.caller, l.shared = protocol.Party{}, false
}

// step passes the progress of a call to its caller.
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

// hearers returns the calls under way, none if several principals have called.
func (l *connection) hearers() []*underway {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shared {
		return nil
	}
	return slices.Collect(maps.Values(l.calls))
}

// textOf is the text of a server's log entry.
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
