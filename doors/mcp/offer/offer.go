// Package offer holds the offers of a bridge to MCP clients beside tools: files, agents
// and documentation as resources, the documents of skills as prompts, and the resources
// and prompts of the MCP servers that the bridge uses itself.
//
// All data comes from commands, run as the reading principal; so policy and audit apply
// as at any other door.
package offer

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/commands"
	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/llm/tools/servers"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// A Router runs commands.
type Router interface {
	Handle(ctx context.Context, in commands.Inbound) *protocol.Response
	Set() *commands.Set
}

// Files are the groups of files that the bridge has.
type Files interface {
	// GroupsFor lists the names of the groups that a principal may read, in order.
	GroupsFor(who *protocol.Principal) []string
	// For yields the files of a group for a principal that may use it.
	For(ctx context.Context, who *protocol.Principal, group string, write bool) (vfs.Files, error)
}

// Options are the sources of the offers. All are required.
type Options struct {
	Router    Router
	Catalogue *tools.Catalogue
	Executor  *tools.Executor
	Files     Files
	// Authorize returns the error of a principal that may not do an action.
	Authorize func(ctx context.Context, who *protocol.Principal, action string, on commands.Resource) error
	Servers   *servers.Service
	// Tasks keep calls that take long. Mark changes whenever a task or a run does,
	// and is "" of one that the principal has not begun.
	Tasks commands.Tasks
	Mark  func(who *protocol.Principal, id protocol.TaskID) string
	// MayDecideOwn reports whether a principal may decide about its own calls.
	MayDecideOwn func(who *protocol.Principal) bool
}

// Resources are files, agents and documentation.
func Resources(o Options) mcpdoor.Resources { return resources{&o} }

// Completions returns the proposals for arguments of templates of resources.
func Completions(o Options) mcpdoor.Completions { return resources{&o} }

// Prompts are the skills with a SKILL.md.
func Prompts(o Options) mcpdoor.Prompts { return prompts{&o} }

// Tasks are the bridge's tasks.
func Tasks(o Options) mcpdoor.Tasks { return tasks{&o} }

// Foreign are the resources and prompts of other MCP servers.
func Foreign(o Options) mcpdoor.Foreign { return foreign{&o} }

// ask runs a command as the principal of an environment, and reads its result.
func (o *Options) ask(ctx context.Context, env tools.Environment, command string, params, result any) error {
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	timeout := protocol.DefaultTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(max(time.Until(deadline), time.Millisecond), protocol.MaxTimeout)
	}
	request := protocol.Request{
		Version: protocol.Version, ID: protocol.NewID(), Timestamp: time.Now().UnixMilli(), Command: command, Params: text,
		Metadata: protocol.Metadata{Timeout: timeout, TraceID: env.TraceID},
	}
	answer := o.Router.Handle(ctx, commands.Inbound{
		Principal: env.Principal, Request: &request, Door: mcpdoor.Name, Traceparent: env.Traceparent,
	})
	if answer.Err != nil {
		return answer.Err
	}
	return json.Unmarshal(answer.Result, result)
}
