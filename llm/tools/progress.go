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
	Logger string // who says it, "" if not known
	Text   string
}

type (
	progressKey struct{}
	logKey      struct{}
	followKey   struct{}
)

// A Follower is told what the calls under a context say while they run, by
// their ids. It is called by several goroutines and must not block for long.
type Follower interface {
	Progress(call string, p Progress)
	Log(call string, l Log)
}

// WithFollower has all calls under a context tell what they have to say.
func WithFollower(ctx context.Context, f Follower) context.Context {
	return context.WithValue(ctx, followKey{}, f)
}

// following is the context of one call, for the follower of all.
func following(ctx context.Context, call string) context.Context {
	f, ok := ctx.Value(followKey{}).(Follower)
	if !ok {
		return ctx
	}
	ctx = context.WithValue(ctx, followKey{}, nil) // those that are within it are its own business
	ctx = WithProgress(ctx, func(p Progress) { f.Progress(call, p) })
	return WithLog(ctx, func(l Log) { f.Log(call, l) })
}

// WithLog has the calls under a context tell what they log. The function is
// called by one goroutine at a time and must not block for long.
func WithLog(ctx context.Context, tell func(Log)) context.Context {
	return context.WithValue(ctx, logKey{}, tell)
}

// TellLog tells what the call of a context logs, if anybody wants to know.
func TellLog(ctx context.Context, l Log) {
	if tell, ok := ctx.Value(logKey{}).(func(Log)); ok {
		tell(l)
	}
}

// Listens reports whether anybody wants to know how far the call of a context
// is, or what it logs.
func Listens(ctx context.Context) bool { return WantsProgress(ctx) || ctx.Value(logKey{}) != nil }

// WithProgress has the calls under a context tell how far they are. The
// function is called by one goroutine at a time and must not block for long.
func WithProgress(ctx context.Context, tell func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, tell)
}

// TellProgress tells how far the call of a context is, if anybody wants to
// know.
func TellProgress(ctx context.Context, p Progress) {
	if tell, ok := ctx.Value(progressKey{}).(func(Progress)); ok {
		tell(p)
	}
}

// WantsProgress reports whether anybody wants to know how far the call of a
// context is.
func WantsProgress(ctx context.Context) bool { return ctx.Value(progressKey{}) != nil }

type taskKey struct{}

// ErrHandedOver ends the context of a call whose work is a task: it goes on
// there, and is not to be called off.
var ErrHandedOver = errors.New("the work goes on as a task")

// WithTask has the call under a context tell the task that does its work, if one
// does.
func WithTask(ctx context.Context, tell func(protocol.TaskID)) context.Context {
	return context.WithValue(ctx, taskKey{}, tell)
}

// TellTask tells the task that does the work of a call, if anybody wants to
// know.
func TellTask(ctx context.Context, id protocol.TaskID) {
	if tell, ok := ctx.Value(taskKey{}).(func(protocol.TaskID)); ok {
		tell(id)
	}
}
