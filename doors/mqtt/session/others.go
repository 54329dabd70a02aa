package session

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/protocol"
)

// Others are the other bridges of a cluster, which have sessions too.
type Others interface {
	// Ask has each other bridge that serves clients do one of [Service.Does] with
	// its sessions. It calls take with the result of each, one after the other.
	Ask(ctx context.Context, do string, with any, take func(bridge string, result json.RawMessage, err error))
}

// Does are the errands that this bridge does for others with its sessions. The
// others check the right to them.
func (s *Service) Does() map[string]func(context.Context, json.RawMessage) (any, error) {
	return map[string]func(context.Context, json.RawMessage) (any, error){
		list.Name:       does(s.list),
		get.Name:        does(s.get),
		kick.Name:       does(s.kick),
		traceStart.Name: does(s.traceStart),
		traceGet.Name:   does(s.traceGet),
		traceStop.Name:  does(s.traceStop),
	}
}

func does[P, R any](do func(P) (R, error)) func(context.Context, json.RawMessage) (any, error) {
	return func(_ context.Context, with json.RawMessage) (any, error) {
		var p P
		if err := json.Unmarshal(with, &p); err != nil {
			return nil, err
		}
		return do(p)
	}
}

// anywhere does something with a session at the bridge that has it. If none says
// that it has it, and one says nothing, that is the error.
func anywhere[P, R any](ctx context.Context, s *Service, do string, p P, here func(P) (R, error)) (R, error) {
	r, err := here(p)
	if s.others == nil || protocol.CodeOf(err) != protocol.NotFound {
		return r, err
	}
	found, silent := false, error(nil)
	s.others.Ask(ctx, do, p, func(_ string, result json.RawMessage, failed error) {
		if failed == nil && !found {
			failed = json.Unmarshal(result, &r)
			found = failed == nil
		}
		if failed != nil && protocol.CodeOf(failed) != protocol.NotFound {
			silent = failed
		}
	})
	switch {
	case found:
		return r, nil
	case silent != nil:
		return r, silent
	}
	return r, err
}
