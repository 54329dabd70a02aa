package run

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"sync"

	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/llm/run/pack"
	"github.com/aibridge/aibridge/llm/run/toolhost"
)

// A workspace holds the material of a run: a package, one of its workflows or agents,
// and the mounts. It implements [navigator].
type workspace struct {
	mode     Mode
	pkg      *pack.Package  // nil in a chat
	workflow *pack.Workflow // of mode run
	active   *pack.Agent    // agent of nodes that name none
	mounts   mount.Mounts
	system   Policy
	named    bool // the starter of the run has named its tools of the bridge
	quota    toolhost.Quota

	mu     sync.Mutex
	text   []byte // text of workflow.md at the last read
	latest *Position
}

// maxState is the greatest size of workflow.md, in bytes.
const maxState = 1 << 20

// readState reads workflow.md.
func readState(ctx context.Context, state mount.FS) ([]byte, error) {
	file, _, err := state.Open(ctx, "workflow.md")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxState+1))
	if err == nil && len(text) > maxState {
		err = fault.Errorf(fault.ReadLimit, "%s has more than %d bytes", statePath, maxState)
	}
	return text, err
}

// writeState writes workflow.md.
func writeState(ctx context.Context, state mount.FS, text []byte) error {
	return state.Write(ctx, "workflow.md", text, mount.WriteOptions{})
}

// position implements [navigator].
func (w *workspace) position(ctx context.Context) (*Position, error) {
	if w.workflow == nil {
		return nil, nil
	}
	text, err := readState(ctx, w.mounts.State)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.latest != nil && bytes.Equal(text, w.text) {
		return w.latest, nil
	}
	at, err := positionIn(w.workflow.Graph, text)
	if err != nil {
		return nil, err
	}
	w.text, w.latest = text, at
	return at, nil
}

// positionIn returns the position in a graph of a text of workflow.md.
func positionIn(g *pack.Graph, text []byte) (*Position, error) {
	state, err := pack.ReadState(text)
	if err != nil {
		return nil, err
	}
	id := g.Effective(state.CurrentNodeID)
	node := g.Node(id)
	if node == nil {
		return nil, fault.Errorf(fault.SchemaValidation, "%s says that the run is in %.100q, and there is no such node", statePath, id)
	}
	return &Position{Node: node, Next: g.Next(id), State: state, Completed: state.Done(g)}, nil
}

// node is the place of the run, "" without a workflow or if its position cannot be read.
func (w *workspace) node(ctx context.Context) string {
	at, err := w.position(ctx)
	if err != nil || at == nil {
		return ""
	}
	return at.Node.ID
}

// agent implements [navigator].
func (w *workspace) agent(at *Position) (*pack.Agent, Policy) {
	if w.mode == ModeChat {
		return nil, w.system
	}
	agent := w.active
	if at != nil && at.Node.AgentID != "" {
		agent = cmp.Or(w.pkg.Agent(at.Node.AgentID), agent)
	}
	var says pack.ToolPolicy
	if agent != nil {
		says = agent.Tools
	}
	return agent, w.system.And(agentPolicy(says, w.named))
}

// stood implements [navigator].
func (w *workspace) stood(at *Position, node string) *Position {
	if at == nil || at.Node.ID == node {
		return at
	}
	before := w.workflow.Graph.Node(node)
	if before == nil {
		return at
	}
	then := *at
	then.Node, then.Completed = before, false
	return &then
}

// topic implements [navigator].
func (w *workspace) topic(at *Position) string {
	if at == nil {
		return ""
	}
	text := at.Node.Title + "\n" + at.Node.Description
	if s, ok := w.workflow.Steps[at.Node.ID]; ok {
		text += "\n" + s.Body
	}
	if len(text) > maxTopic {
		text = text[:maxTopic]
	}
	return text
}

// maxTopic is the length of the part of a step by which its tools are chosen, in bytes.
const maxTopic = 8 << 10

// agentPolicy is the tool policy of an agent of a package. The import of a package does
// not give it all tools of the bridge: an agent has those that it names, and if it
// names none those that the starter of the run has named.
func agentPolicy(t pack.ToolPolicy, named bool) Policy {
	p := Policy{FS: FSPolicy{Enabled: true}, MCP: MCPPolicy{AllowedServers: []string{}}, Tools: []string{}}
	switch {
	case t.Bridge != nil && t.Bridge.AllowedTools != nil:
		p.Tools = *t.Bridge.AllowedTools
	case named:
		p.Tools = []string{"*"}
	}
	if t.FS != nil {
		if t.FS.Enabled != nil {
			p.FS.Enabled = *t.FS.Enabled
		}
		if t.FS.MaxReadBytes != nil {
			p.FS.MaxReadBytes = *t.FS.MaxReadBytes
		}
		if t.FS.MaxWriteBytes != nil {
			p.FS.MaxWriteBytes = *t.FS.MaxWriteBytes
		}
	}
	if t.MCP != nil {
		if t.MCP.Enabled != nil {
			p.MCP.Enabled = *t.MCP.Enabled
		}
		if t.MCP.AllowedServers != nil {
			p.MCP.AllowedServers = *t.MCP.AllowedServers
		}
	}
	return p
}
