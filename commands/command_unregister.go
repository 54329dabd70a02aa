package commands

import (
	"context"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

var commandUnregister = Spec{
	Name:    "command.unregister",
	Summary: "Give a namespace of commands back.",
	Effect:  Write,
	Action:  "command:unregister",
	Errors:  []protocol.Code{protocol.NotFound, protocol.RevisionConflict, protocol.InvalidState},
	Example: `{"namespace":"acme.*"}`,
}

// UnregisterParams are the parameters of command.unregister.
type UnregisterParams struct {
	Namespace string `json:"namespace" len:"1-32" pattern:"^[a-z][a-z0-9]*(\\.\\*)?$" doc:"as it was registered, such as acme.*"`
}

// UnregisterResult is the result of command.unregister.
type UnregisterResult struct {
	Namespace string `json:"namespace" doc:"the namespace that was given back, always with .* at its end"`
}

func unregisterCommand(ctx context.Context, call *Call, p UnregisterParams) (UnregisterResult, error) {
	r := call.router
	if r.agents.table == nil {
		return UnregisterResult{}, errNoNamespaces()
	}
	name := strings.TrimSuffix(p.Namespace, ".*")
	key := namespaceKey(call.Principal.Space, name)
	ns, revision, ok := r.agents.table.Get(key)
	if !ok {
		return UnregisterResult{}, protocol.Errorf(protocol.NotFound, "nobody has registered %s.*", name)
	}
	if !ns.Owner.Is(call.Principal) {
		if err := r.opts.Authorizer.ActFor(ctx, call.Principal, string(ns.Agent)); err != nil {
			return UnregisterResult{}, err
		}
	}
	if err := r.agents.table.Delete(ctx, key, revision); err != nil {
		return UnregisterResult{}, err
	}
	return UnregisterResult{Namespace: name + ".*"}, nil
}
