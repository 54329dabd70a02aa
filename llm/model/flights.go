package model

import (
	"context"
	"errors"
	"sync"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

// flights joins concurrent identical queries.
type flights struct {
	mu   sync.Mutex
	open map[cacheKey]*flight
}

// A flight is a query under way that other callers may share.
type flight struct {
	done  chan struct{}
	reply *Reply
	err   error
}

// do runs ask once for all callers with the same key while it runs. Joining callers get
// the answer of the first, or its provider's failure. If the first one failed for a
// reason of its own, as by a disconnection or a spent budget, a joining caller asks
// itself.
func (f *flights) do(ctx context.Context, key cacheKey, ask func() (*Reply, error)) (o *Reply, joined bool, err error) {
	for {
		f.mu.Lock()
		other := f.open[key]
		if other == nil {
			break
		}
		f.mu.Unlock()
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, true, context.Cause(ctx)
		}
		if other.err == nil {
			return other.reply, true, nil
		}
		if everybodys(other.err) {
			return nil, true, other.err
		}
	}
	if f.open == nil {
		f.open = make(map[cacheKey]*flight)
	}
	mine := &flight{done: make(chan struct{})}
	f.open[key] = mine
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.open, key)
		f.mu.Unlock()
		close(mine.done)
	}()
	mine.err = context.Canceled // if ask panics, joining callers ask themselves
	mine.reply, mine.err = ask()
	return mine.reply, false, mine.err
}

// everybodys reports whether a failure is that of the providers, which other callers
// would get as well. An answer that broke off is not: it ends only for a listener to
// the stream, while other callers get an answer of another provider.
func everybodys(err error) bool {
	e, ok := errors.AsType[*protocol.Error](err)
	return ok && (e.Code == protocol.LLMUnavailable || e.Code == protocol.LLMRefused) && e.Details["reason"] != string(chat.CutOff)
}
