package run

import (
	"github.com/aibridge/aibridge/llm/run/pack"
	"github.com/aibridge/aibridge/llm/run/toolhost"
	"github.com/aibridge/aibridge/llm/tools"
)

// fileTools returns the function that makes the file tools of a run under a policy,
// with the guard of its workflow.md.
func (w *workspace) fileTools() func(Policy) []*tools.Tool {
	var graph *pack.Graph
	if w.workflow != nil {
		graph = w.workflow.Graph
	}
	host := toolhost.New(toolhost.Options{Mounts: &w.mounts, Graph: graph, Quota: w.quota})
	return func(p Policy) []*tools.Tool {
		return host.Tools(toolhost.Limits{MaxReadBytes: p.FS.MaxReadBytes, MaxWriteBytes: p.FS.MaxWriteBytes})
	}
}
