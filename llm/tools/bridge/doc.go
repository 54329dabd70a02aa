// Package bridge is the source of the bridge's own tools: the capabilities of skills,
// the dispatch to groups, the documents of skills, and commands that an operator has
// allowed.
//
// None of them can do more than its caller: all run commands as the principal of their
// environment.
package bridge

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// Invoke runs a command of the bridge as the environment's principal. It
// returns when the command has ended, or soon after ctx.
type Invoke func(ctx context.Context, env tools.Environment, command string, params json.RawMessage) (json.RawMessage, error)

// Fill is [Invoke] for a command and its params by a template, with the member params. It
// does not wait for the end of the command.
type Fill func(ctx context.Context, env tools.Environment, t *commands.Template, params json.RawMessage) Filled

// A Filled command is one that was begun. Its caller waits for it by Done or stops by
// Leave, and then takes the result, once.
type Filled interface {
	Done() <-chan struct{} // gets one value when there is a result
	Leave(why error)       // ends the command, if it can be, and the wait for it
	Result() (json.RawMessage, error)
}

// May returns the error of a principal that may not run commands of an action. It
// serves lists: the decision about a call is made when the command runs.
type May func(ctx context.Context, who *protocol.Principal, action string) error

// MayInvoke returns the error of a principal that may not invoke a skill.
type MayInvoke func(ctx context.Context, who *protocol.Principal, space protocol.SpaceID, skill protocol.SkillID) error

// spaceOf is the space of an environment, "" if its principal may not see that space.
func spaceOf(env tools.Environment) protocol.SpaceID {
	home := env.Principal.Home()
	if env.Space == "" || env.Space == home {
		return home
	}
	if env.Principal.Unbounded() {
		return env.Space
	}
	return ""
}

// elsewhere is the space for the params of commands, "" for the principal's own.
func elsewhere(env tools.Environment) protocol.SpaceID {
	if env.Space == env.Principal.Home() {
		return ""
	}
	return env.Space
}

// write encodes params of this package as JSON.
func write(params any) (json.RawMessage, error) {
	text, err := json.Marshal(params)
	if err != nil {
		return nil, protocol.Wrap(protocol.Internal, err, "the call cannot be written as JSON")
	}
	return text, nil
}
