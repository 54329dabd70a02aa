package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands/schema"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// Extension is the family of the actions and the type of the resources of
// commands that agents have registered: acme.blink is extension:acme.blink to
// policy, so that policies about the bridge's own commands never match their names.
const Extension = "extension"

// A Namespace is a family of commands that an agent has registered with
// command.register. It is stored as JSON under its space and name.
type Namespace struct {
	Name       string           `json:"namespace"` // the family, "acme"
	Space      protocol.SpaceID `json:"space_id"`
	Agent      protocol.AgentID `json:"agent_id"`
	Owner      protocol.Party   `json:"principal"` // the party that registered it
	Registered time.Time        `json:"registered"`
	Commands   []RemoteCommand  `json:"commands"`
}

// KeptFor is the party whose budget of records the namespace uses.
func (n *Namespace) KeptFor() protocol.Party { return n.Owner }

// A RemoteCommand is a command of a [Namespace].
type RemoteCommand struct {
	Name         string          `json:"name" len:"3-128" doc:"full name, in the namespace"`
	Summary      string          `json:"summary" len:"1-512" text:"line" doc:"purpose, in one sentence"`
	Effect       Effect          `json:"effect,omitempty" default:"act" doc:"effect of running it on the world"`
	ParamsSchema json.RawMessage `json:"params_schema,omitempty" type:"object" doc:"JSON Schema of the parameters"`
	ResultSchema json.RawMessage `json:"result_schema,omitempty" type:"object" doc:"JSON Schema of the result"`
}

func namespaceKey(space protocol.SpaceID, name string) string { return string(space) + "/" + name }

// namespaces are the commands that agents have registered, ready to be
// called. They follow the table.
type namespaces struct {
	router *Router
	table  records.Table[Namespace]

	mu     sync.RWMutex
	served map[string]map[string]*Command // by key of the namespace, by name
}

func newNamespaces(r *Router) *namespaces {
	n := &namespaces{router: r, served: make(map[string]map[string]*Command)}
	if r.opts.Forwarder != nil && r.opts.Namespaces != nil && r.opts.Schemas != nil {
		n.table = r.opts.Namespaces
		n.table.OnChange(n.changed)
	}
	return n
}

// changed follows a change of the table.
func (n *namespaces) changed(key string, _, now *Namespace) {
	var served map[string]*Command
	if now != nil && n.router.reserved(now.Name) { // by a version that came after it
		n.router.opts.Log.Error("the commands of an agent are not served, as their namespace is the bridge's own by now; have the agent register another",
			"namespace", now.Name, "space", now.Space, "agent", now.Agent)
	} else if now != nil {
		served = make(map[string]*Command, len(now.Commands))
		for i := range now.Commands {
			cmd, err := n.compile(now, &now.Commands[i])
			if err != nil { // it was checked before it was stored
				n.router.opts.Log.Error("registered command cannot be served", "command", now.Commands[i].Name, "error", err)
				continue
			}
			served[cmd.Name] = cmd
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, cmd := range n.served[key] {
		if served[name] == nil {
			n.router.metrics.forget(cmd)
		}
	}
	if served == nil {
		delete(n.served, key)
	} else {
		n.served[key] = served
	}
}

// find returns the command of that name in a space.
func (n *namespaces) find(space protocol.SpaceID, name string) (*Command, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	cmd, ok := n.served[namespaceKey(space, family(name))][name]
	return cmd, ok
}

// in returns the commands registered in a space, by name.
func (n *namespaces) in(space protocol.SpaceID) []*Command {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var all []*Command
	for key, served := range n.served {
		if strings.HasPrefix(key, namespaceKey(space, "")) {
			all = slices.AppendSeq(all, maps.Values(served))
		}
	}
	return all
}

// Commands yields every command that a caller in a space can name, by name:
// the router's own and those that agents have registered there.
func (r *Router) Commands(space protocol.SpaceID) iter.Seq[*Command] {
	all := slices.AppendSeq(r.agents.in(space), r.set.All())
	slices.SortFunc(all, func(a, b *Command) int { return strings.Compare(a.Name, b.Name) })
	return slices.Values(all)
}

// Find returns the command that a caller in a space means by a name.
func (r *Router) Find(space protocol.SpaceID, name string) (*Command, bool) {
	if cmd, ok := r.set.Find(name); ok {
		return cmd, true
	}
	return r.agents.find(space, name)
}

// Nearest returns the command that a caller in a space probably meant by a
// misspelt name, if there is one.
func (r *Router) Nearest(space protocol.SpaceID, name string) (string, bool) {
	return schema.Nearest(name, func(yield func(string) bool) {
		for cmd := range r.Commands(space) {
			for _, n := range append([]string{cmd.Name}, cmd.Aliases...) {
				if !yield(n) {
					return
				}
			}
		}
	})
}

// compile makes a command that is forwarded to its agent.
func (n *namespaces) compile(ns *Namespace, rc *RemoteCommand) (*Command, error) {
	if !strings.HasPrefix(rc.Name, ns.Name+".") || !nameForm.MatchString(rc.Name) {
		return nil, protocol.InvalidParam("name", "must be "+ns.Name+". and a verb of lower case letters, digits and hyphens")
	}
	cmd := &Command{
		mark:         markCommand(rc.Name),
		Spec:         Spec{Name: rc.Name, Summary: rc.Summary, Effect: rc.Effect, Action: Extension + ":" + rc.Name},
		paramsSchema: orAny(rc.ParamsSchema),
		resultSchema: orAny(rc.ResultSchema),
	}
	checkParams, err := n.check(rc.ParamsSchema, "params_schema")
	if err != nil {
		return nil, err
	}
	checkResult, err := n.check(rc.ResultSchema, "result_schema")
	if err != nil {
		return nil, err
	}
	space, agent := ns.Space, ns.Agent
	cmd.decode = func(params json.RawMessage) (run invocation, async bool, err error) {
		if err := checkParams(params); err != nil {
			return nil, false, err
		}
		return &forwarding{
			on:      Resource{Type: Extension, ID: string(agent), Space: space},
			agent:   agent,
			params:  bytes.Clone(params),
			forward: n.router.opts.Forwarder,
			check:   checkResult,
		}, false, nil
	}
	return cmd, nil
}

// orAny is a schema to show for one that was not given.
func orAny(document json.RawMessage) json.RawMessage {
	if len(document) == 0 {
		return json.RawMessage(`{"type":"object"}`)
	}
	return document
}

// maxSchema bounds a registered schema, in bytes.
const maxSchema = 64 << 10

// check compiles a schema, which may be missing.
func (n *namespaces) check(document json.RawMessage, param string) (func(json.RawMessage) error, error) {
	if len(document) == 0 {
		return func(json.RawMessage) error { return nil }, nil
	}
	if len(document) > maxSchema {
		return nil, protocol.InvalidParam(param, "must not be larger than 64 KiB")
	}
	check, err := n.router.opts.Schemas(document)
	if err != nil {
		return nil, protocol.InvalidParam(param, err.Error())
	}
	return check, nil
}

// A forwarding is the call of a command that an agent answers.
type forwarding struct {
	on      Resource
	agent   protocol.AgentID
	params  json.RawMessage
	forward Forwarder
	check   func(result json.RawMessage) error
}

func (f *forwarding) target() Resource { return f.on }

func (f *forwarding) run(ctx context.Context, call *Call) (result json.RawMessage, err error) {
	err = call.Park(ctx, func(ctx context.Context) (err error) {
		result, err = f.forward.Forward(ctx, call, f.agent, call.Command, f.params)
		return err
	})
	if err != nil {
		return result, err
	}
	if err := f.check(result); err != nil {
		// The agent may have done the work.
		return nil, protocol.Wrap(protocol.OutcomeUnknown, err, "the agent's result breaks the schema it registered")
	}
	return result, nil
}
