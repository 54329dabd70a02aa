package caps

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// An errand is a command on its way to the bridge of a cluster that mirrors Caps.
type errand[P any] struct {
	Principal *protocol.Principal `json:"principal"` // as it was authenticated where the command came in
	Params    P                   `json:"params"`
}

// Errands are the handlers of commands that came in at other bridges, by name.
func (s *Service) Errands() map[string]func(ctx context.Context, with json.RawMessage) (any, error) {
	return map[string]func(context.Context, json.RawMessage) (any, error){
		syncSpec.Name:    runs(s, s.syncHere),
		statusSpec.Name:  runs(s, s.statusHere),
		listSpec.Name:    runs(s, s.listHere),
		recoverSpec.Name: runs(s, s.recoverHere),
		pauseSpec.Name:   runs(s, s.pauseHere),
		resumeSpec.Name:  runs(s, s.resumeHere),
		rescanSpec.Name:  runs(s, s.rescanHere),
		restoreSpec.Name: runs(s, s.restoreHere),
		reportSpec.Name:  runs(s, s.reportHere),
	}
}

// runs decodes an errand and runs it.
func runs[P, R any](s *Service, here func(context.Context, *protocol.Principal, P) (R, error)) func(context.Context, json.RawMessage) (any, error) {
	return func(ctx context.Context, with json.RawMessage) (any, error) {
		var e errand[P]
		if err := json.Unmarshal(with, &e); err != nil {
			return nil, err
		}
		return whenBegun(ctx, s, e, here)
	}
}

// entrust runs a command on the bridge that mirrors Caps: on another one, or here.
func entrust[P, R any](ctx context.Context, s *Service, call *commands.Call, spec *commands.Spec, p P,
	here func(context.Context, *protocol.Principal, P) (R, error),
) (result R, err error) {
	err = call.Park(ctx, func(ctx context.Context) (err error) {
		elsewhere := false
		if s.o.Elsewhere != nil {
			elsewhere, err = s.o.Elsewhere(ctx, spec.Name, errand[P]{call.Principal, p}, &result)
		}
		if !elsewhere {
			result, err = whenBegun(ctx, s, errand[P]{call.Principal, p}, here)
		}
		return err
	})
	return result, err
}

// whenBegun runs a command once the service knows all Caps: another bridge may have
// ended a moment ago.
func whenBegun[P, R any](ctx context.Context, s *Service, e errand[P], here func(context.Context, *protocol.Principal, P) (R, error)) (result R, err error) {
	select {
	case <-s.begun:
		return here(ctx, e.Principal, e.Params)
	case <-ctx.Done():
		return result, context.Cause(ctx)
	}
}
