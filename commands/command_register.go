package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

var commandRegister = Spec{
	Name:    "command.register",
	Summary: "Take a namespace of commands, which the bridge then forwards to an agent.",
	Effect:  Write,
	Action:  "command:register",
	Errors:  []protocol.Code{protocol.AlreadyExists, protocol.LimitReached, protocol.RevisionConflict, protocol.InvalidState},
	Example: `{"agent_id":"acme-agent","namespace":"acme.*","commands":[{"name":"acme.blink","summary":"Blink the lights.",` +
		`"params_schema":{"type":"object","properties":{"times":{"type":"integer"}}}}]}`,
}

// maxNamespaces bounds how many namespaces agents can take.
const maxNamespaces = 1000

// RegisterParams are the parameters of command.register.
type RegisterParams struct {
	Agent     protocol.AgentID `json:"agent_id" doc:"the agent that answers the commands"`
	Namespace string           `json:"namespace" len:"1-32" pattern:"^[a-z][a-z0-9]*(\\.\\*)?$" doc:"the family of the commands, such as acme.*"`
	Commands  []RemoteCommand  `json:"commands" len:"1-100" doc:"all commands of the namespace; earlier ones are replaced"`
}

// Target is the agent that will get the commands.
func (p RegisterParams) Target() Resource { return Resource{Type: "agent", ID: string(p.Agent)} }

// RegisterResult is the result of command.register.
type RegisterResult struct {
	Namespace string           `json:"namespace" doc:"the namespace, always with .* at its end"`
	Agent     protocol.AgentID `json:"agent_id" doc:"id of the agent that gets the commands"`
	Commands  []string         `json:"commands" doc:"the names that are forwarded from now on"`
	Revision  uint64           `json:"revision" doc:"number of the stored version; rises with every registration of the namespace"`
}

// reserved are the families of the protocol, also of commands that this
// bridge does not have, and effects.
var reserved = []string{"act", "agent", "aibridge", "approval", "batch", "bridge", "cap", "cert", "command", Extension, "group", "key", "llm",
	"policy", "read", "resource", "scene", "skill", "task", "vfs", "write"}

// reserved reports whether a namespace is the bridge's own.
func (r *Router) reserved(namespace string) bool {
	return slices.Contains(reserved, namespace) || slices.Contains(r.opts.Reserved, namespace) || r.set.hasFamily(namespace)
}

func registerCommand(ctx context.Context, call *Call, p RegisterParams) (RegisterResult, error) {
	r := call.router
	if r.agents.table == nil {
		return RegisterResult{}, errNoNamespaces()
	}
	ns := &Namespace{
		Name:       strings.TrimSuffix(p.Namespace, ".*"),
		Space:      call.Principal.Space,
		Agent:      p.Agent,
		Owner:      call.Principal.Party(),
		Registered: r.opts.Now().UTC(),
		Commands:   p.Commands,
	}
	if r.reserved(ns.Name) {
		return RegisterResult{}, protocol.InvalidParam("namespace", "belongs to the bridge; choose another name")
	}
	if p.Agent.Party(call.Principal.Home()) != call.Principal.Party() {
		if err := r.opts.Authorizer.ActFor(ctx, call.Principal, string(p.Agent)); err != nil {
			return RegisterResult{}, err
		}
	}
	if err := r.agents.compileAll(ns); err != nil {
		return RegisterResult{}, err
	}
	revision, err := r.agents.store(ctx, ns)
	if err != nil {
		return RegisterResult{}, err
	}
	result := RegisterResult{Namespace: ns.Name + ".*", Agent: ns.Agent, Revision: revision}
	for _, c := range ns.Commands {
		result.Commands = append(result.Commands, c.Name)
	}
	return result, nil
}

func errNoNamespaces() error {
	return protocol.Errorf(protocol.InvalidState, "this bridge takes no commands from agents")
}

// compileAll checks every command of a namespace.
func (n *namespaces) compileAll(ns *Namespace) error {
	seen := make(map[string]bool, len(ns.Commands))
	for i := range ns.Commands {
		path := fmt.Sprintf("commands[%d]", i)
		name := ns.Commands[i].Name
		if seen[name] {
			return protocol.InvalidParam(path+".name", "is given twice")
		}
		seen[name] = true
		if _, err := n.compile(ns, &ns.Commands[i]); err != nil {
			return inside(path, err)
		}
	}
	return nil
}

// inside puts a path before the parameter that an error names.
func inside(path string, err error) error {
	var e *protocol.Error
	if !errors.As(err, &e) || e.Code != protocol.InvalidParameter {
		return err
	}
	return protocol.InvalidParam(fmt.Sprintf("%s.%v", path, e.Details["param_name"]), fmt.Sprint(e.Details["reason"]))
}

// store creates a namespace, or replaces the same principal's earlier one of
// the name.
func (n *namespaces) store(ctx context.Context, ns *Namespace) (revision uint64, err error) {
	key := namespaceKey(ns.Space, ns.Name)
	before, revision, ok := n.table.Get(key)
	switch {
	case ok && !before.Owner.Includes(ns.Owner):
		return 0, protocol.Errorf(protocol.AlreadyExists, "the namespace %s.* belongs to another party", ns.Name)
	case ok:
		return n.table.Update(ctx, key, ns, revision)
	case n.count() >= maxNamespaces:
		return 0, protocol.Errorf(protocol.LimitReached, "there are %d namespaces already", maxNamespaces)
	}
	return n.table.Create(ctx, key, ns)
}

func (n *namespaces) count() int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.served)
}
