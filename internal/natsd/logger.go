package natsd

import (
	"fmt"
	"log/slog"
	"sync/atomic"
)

// logger passes on what goes wrong in an embedded server and drops the rest.
// Warnings are for debugging: they come with every start after a crash, when
// the server rebuilds its indexes.
type logger struct {
	log   *slog.Logger
	fatal atomic.Pointer[string] // why the server gave up, nil if it did not
}

func (l *logger) Errorf(format string, v ...any) { l.log.Error(fmt.Sprintf(format, v...)) }
func (l *logger) Warnf(format string, v ...any)  { l.log.Debug(fmt.Sprintf(format, v...)) }

// Fatalf keeps the reason, where NATS's own logger would end the process.
func (l *logger) Fatalf(format string, v ...any) {
	reason := fmt.Sprintf(format, v...)
	l.fatal.Store(&reason)
	l.log.Error(reason)
}

func (l *logger) Noticef(string, ...any) {}
func (l *logger) Debugf(string, ...any)  {}
func (l *logger) Tracef(string, ...any)  {}

// reason is why the server gave up, as far as it said so.
func (l *logger) reason() string {
	if r := l.fatal.Load(); r != nil {
		return *r
	}
	return "it did not say why"
}
