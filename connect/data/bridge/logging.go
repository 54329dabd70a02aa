package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/redpanda-data/benthos/v4/public/service"
)

// logger has the SDK's log among the pipeline's.
func (a address) logger() *slog.Logger { return slog.New(logged{to: a.log}) }

// logged is a handler of the standard library's log that writes to a component's.
type logged struct {
	to    *service.Logger
	attrs []slog.Attr
}

func (h logged) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (h logged) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	add := func(a slog.Attr) bool { fmt.Fprintf(&b, " %s=%v", a.Key, a.Value); return true }
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	switch {
	case r.Level >= slog.LevelError:
		h.to.Error(b.String())
	case r.Level >= slog.LevelWarn:
		h.to.Warn(b.String())
	default:
		h.to.Info(b.String())
	}
	return nil
}

func (h logged) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)
	return h
}

func (h logged) WithGroup(string) slog.Handler { return h }
