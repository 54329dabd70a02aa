package tools

import (
	"context"
	"errors"

	"github.com/aibridge/aibridge/protocol"
)

// Progress is the progress of a call, as its worker reports it.
type Progress struct {
	Percent float64 // 0 to 100, 0 if it is not known
	Message string
}

// A Log is a log message of the worker during a call.
type Log struct {
	Level  string // of syslog, such as warning
	Logger string // name of its source, "" if unknown
	Text   string
}

type (
	progressKey struct{}
	logKey      struct{}
	followKey   struct{}
)

// A Follower receives the progress and logs of the calls under a context, with their
// ids. It is called by several goroutines and must not block for long.
type Follower interface {
	Progress(call string, p Progress)
	Log(call string, l Log)
}

// WithFollower returns a context whose calls report to a follower.
func WithFollower(ctx context.Context, f Follower) context.Context {
	return context.WithValue(ctx, followKey{}, f)
}

// following returns the context of one call, which reports to the follower by the
// call's id.
func following(ctx context.Context, call string) context.Context {
	f, ok := ctx.Value(followKey{}).(Follower)
	if !ok {
		return ctx
	}
	ctx = context.WithValue(ctx, followKey{}, nil) // nested calls do not report
	ctx = WithProgress(ctx, func(p Progress) { f.Progress(call, p) })
	return WithLog(ctx, func(l Log) { f.Log(call, l) })
}

// WithLog returns a context whose calls report their logs to a function. It is called
// by one goroutine at a time and must not block for long.
func WithLog(ctx context.Context, tell func(Log)) context.Context {
	return context.WithValue(ctx, logKey{}, tell)
}

// TellLog reports a log of a context's call, if there is a receiver.
func TellLog(ctx context.Context, l Log) {
	if tell, ok := ctx.Value(logKey{}).(func(Log)); ok {
		tell(l)
	}
}

// Listens reports whether there is a receiver of progress or logs of a context's call.
func Listens(ctx context.Context) bool { return WantsProgress(ctx) || ctx.Value(logKey{}) != nil }

// WithProgress returns a context whose calls report their progress to a function. It is
// called by one goroutine at a time and must not block for long.
func WithProgress(ctx context.Context, tell func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, tell)
}

// TellProgress reports the progress of a context's call, if there is a receiver.
func TellProgress(ctx context.Context, p Progress) {
	if tell, ok := ctx.Value(progressKey{}).(func(Progress)); ok {
		tell(p)
	}
}

// WantsProgress reports whether there is a receiver of progress of a context's call.
func WantsProgress(ctx context.Context) bool { return ctx.Value(progressKey{}) != nil }

type taskKey struct{}

// ErrHandedOver is the cause of the end of a call's context when a task has taken over
// its work, which must not be cancelled then.
var ErrHandedOver = errors.New("the work goes on as a task")

// WithTask returns a context whose call reports the task that does its work, if there
// is one.
func WithTask(ctx context.Context, tell func(protocol.TaskID)) context.Context {
	return context.WithValue(ctx, taskKey{}, tell)
}

// TellTask reports the task that does the work of a context's call, if there is a
// receiver.
func TellTask(ctx context.Context, id protocol.TaskID) {
	if tell, ok := ctx.Value(taskKey{}).(func(protocol.TaskID)); ok {
		tell(id)
	}
}
