package natsd

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// logger passes on the errors of an embedded server and drops the rest. Warnings
// are for debugging: they come with every start after a crash, when the server
// rebuilds its indexes. A repeated error, such as a failed attempt to reach a
// server that is away, is logged once a minute.
type logger struct {
	log   *slog.Logger
	mu    sync.Mutex
	told  map[string]time.Time   // by the text without its numbers
	fatal atomic.Pointer[string] // why the server gave up, nil if it did not

	broken atomic.Pointer[string] // the failure of the server's files, after which it stores no more
	alarm  chan struct{}          // holds a token when broken was set
}

func newLogger(log *slog.Logger) *logger { return &logger{log: log, alarm: make(chan struct{}, 1)} }

// writeError is in the message of NATS for a failed write of a file: it does not
// write to that stream again, and only the log shows all cases.
const writeError = "critical write error"

// awayError is in the message of NATS for each attempt to reach a server that is
// not there, which the bridge reports in its own words.
const awayError = "trying to connect to route"

// Errorf notices as well that the server's files have failed. Errors that follow
// from that are not worth an error each time.
func (l *logger) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	if l.broken.Load() != nil {
		l.log.Debug(text)
		return
	}
	switch {
	case strings.Contains(text, awayError):
		l.log.Debug(text)
	case l.news(text):
		l.log.Error(text)
	}
	if !strings.Contains(strings.ToLower(text), writeError) {
		return
	}
	l.broken.Store(&text)
	select {
	case l.alarm <- struct{}{}:
	default:
	}
}

const (
	tellAgain = time.Minute
	maxTold   = 256
)

// news reports whether no similar text was logged within the last minute.
func (l *logger) news(text string) bool {
	kind := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if last, ok := l.told[kind]; ok && now.Sub(last) < tellAgain {
		return false
	}
	if l.told == nil || len(l.told) >= maxTold {
		l.told = make(map[string]time.Time)
	}
	l.told[kind] = now
	return true
}

func (l *logger) Warnf(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }

// Fatalf keeps the reason, where NATS's own logger would end the process.
func (l *logger) Fatalf(format string, v ...any) {
	reason := fmt.Sprintf(format, v...)
	l.fatal.Store(&reason)
	l.log.Error(reason)
}

func (l *logger) Noticef(string, ...any) {}
func (l *logger) Debugf(string, ...any)  {}
func (l *logger) Tracef(string, ...any)  {}

// reason is the reason why the server gave up, as far as it said so.
func (l *logger) reason() string {
	if r := l.fatal.Load(); r != nil {
		return *r
	}
	return "it did not say why"
}
