package app

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/connect/site"
	"github.com/aibridge/aibridge/internal/egress"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/conversation"
	"github.com/aibridge/aibridge/llm/loop"
	"github.com/aibridge/aibridge/llm/parked"
	"github.com/aibridge/aibridge/llm/run"
	"github.com/aibridge/aibridge/llm/run/pack"
	"github.com/aibridge/aibridge/llm/run/project"
	"github.com/aibridge/aibridge/llm/run/toolhost"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit/events"
)

// newApprovals makes the service of approvals of models' calls by people. Its table
// is loaded afterwards.
func newApprovals(s *state) (*approval.Service, error) {
	c := &s.config.Approvals
	options, err := c.Apply(approval.Options{
		Approvals:       approval.Sealed(store.NewTable[approval.Record](s.Store, "approval"), s.seals),
		Policy:          s.judge,
		Versions:        s.judge,
		MayDecide:       s.judge.MayDecide,
		MayDecideOwn:    s.judge.MayDecideOwn,
		MayDecideEdited: s.judge.MayDecideEdited,
		MayName:         site.Names(s.config.Sites.Have).CheckSite,
		Grants:          s.credentials,
		Check:           s.credentials.Check,
		Publish:         s.clients.PublishApproval,
		Record:          events.Approvals(s.audit),
		Told:            store.NewTable[approval.Told](s.Store, "approvaltold"),
		Node:            s.owner(),
		Heir:            s.heir,
		BridgeID:        s.config.ID,
		Log:             s.log,
		Registerer:      s.metrics,
		Transport:       approval.Transport(egress.Guard{AllowPrivate: c.AllowPrivate}.Control),
	})
	if err != nil {
		return nil, err
	}
	approvals := approval.New(options)
	approvals.OnEdited(s.policies.FactsChanged) // policies may read the arguments
	approvals.OnChange(func() {
		if joined := s.promised.site.value(); joined != nil && len(joined.Approvals) > 0 {
			joined.Stir()
		}
	})
	s.promised.approvals.keep(approvals)
	return approvals, nil
}

// tellLate sends callers the outcomes of calls that ended after their answer, if
// the response topic is still theirs.
func (d *domains) tellLate(s *state) func(*protocol.Principal, *commands.ReturnAddress, *protocol.Event) {
	return func(who *protocol.Principal, to *commands.ReturnAddress, e *protocol.Event) {
		if d.rights.MayRespond(who, to.Topic) {
			s.clients.PublishLate(who.Party(), to, e)
		}
	}
}

// reviser prepares a waiting call with changed arguments, with the present rights
// of the principal that it is for.
func reviser(d *domains, known *toolParts) approval.Reviser {
	return func(ctx context.Context, r *approval.Record, args json.RawMessage) (*tools.Tool, *tools.Execution, error) {
		who, err := d.parked.Principal(protocol.TaskID(r.Task))
		if protocol.CodeOf(err) == protocol.NotFound {
			who, err = d.runs.Principal(r.Task)
		}
		if err != nil {
			return nil, nil, err
		}
		env := tools.Environment{Principal: who, Space: r.Space, Skill: r.Skill, Session: r.Session, TraceID: r.TraceID, Task: r.Task, Parks: true}
		box, err := known.catalogue.Select(ctx, env, []string{r.Tool})
		if err != nil {
			return nil, nil, err
		}
		return known.executor.Preview(ctx, box, env, &chat.ToolCall{ID: "edited", Name: r.Tool, Args: args})
	}
}

// newParked makes the part that keeps calls that wait for an approval. Its table is
// loaded afterwards.
func newParked(s *state, approvals *approval.Service, keptElse func(task, approval string) bool, late func(*protocol.Principal, *commands.ReturnAddress, *protocol.Event)) *parked.Service {
	c := &s.config.Approvals
	return parked.New(parked.Options{
		Tasks:       store.NewTable[parked.Record](s.Store, "parked"),
		Approvals:   approvals,
		KeptElse:    keptElse,
		Grants:      s.credentials,
		Sealer:      s.seals,
		Publish:     s.clients.PublishTask,
		Return:      late,
		BridgeID:    s.config.ID,
		Wait:        time.Duration(c.WaitSeconds) * time.Second,
		MaxOwnBytes: c.WaitingOwnKiB << 10, MaxOpenBytes: c.WaitingKiB << 10,
		Log:        s.log,
		Registerer: s.metrics,
	})
}

// newLoop makes the loop that lets models use tools.
func newLoop(s *state, models *modelParts, tools *toolParts) *loop.Runner {
	return loop.New(loop.Options{
		Model: models.service, Tools: tools.catalogue, Executor: tools.executor, Limits: s.config.ToolLoop.Limits(), Retriever: tools.retriever,
		Agent: s.config.LLM.Agent, Tracer: s.tracer, Log: s.log, Registerer: s.metrics,
	})
}

// newChats makes the service of conversations. Its table is loaded afterwards.
func newChats(s *state, models *modelParts, known *toolParts, talker *loop.Runner, waiting *parked.Service) *conversation.Service {
	c := &s.config.Chat
	return conversation.New(conversation.Options{
		Conversations:    store.NewTable[conversation.Conversation](s.Store, "chat"),
		Talker:           talker,
		Parked:           waiting,
		Tools:            known.catalogue,
		Direct:           &tools.Executor{Gate: pass, Tracer: s.tracer, Log: s.log, Record: known.record.Called},
		Models:           models.names,
		MayActFor:        s.judge.MayAskFor,
		MaxTurns:         c.Turns,
		MaxBytes:         c.KiB << 10,
		MaxConversations: c.Conversations,
		TTL:              time.Duration(c.Hours) * time.Hour,
		Log:              s.log,
	})
}

// pass lets calls through that people make themselves: approvals are for the calls
// of models.
func pass(context.Context, *tools.Tool, *tools.Execution) error { return nil }

// newRuns makes the part that executes workflows. Its tables are loaded
// afterwards.
func newRuns(ctx context.Context, s *state, d *domains) (*run.Service, error) {
	c := &s.config.Runs
	models, known, approvals := d.models, d.tools, d.approvals
	projects := &project.Projects{Folders: c.Folders, Files: d.files, Grants: s.credentials, Authorize: s.authorizer.Authorize}
	options := run.Options{
		Asker:     models.service,
		Tracer:    s.tracer,
		Executor:  &tools.Executor{Gate: approvals.Gate, MaxDepth: known.executor.MaxDepth, Tracer: s.tracer, Log: s.log}, // runs record their calls themselves
		Catalogue: known.catalogue,
		Retriever: known.retriever,
		Runs:      store.NewTable[run.Record](s.Store, "run"),
		Packages:  store.NewTable[run.PackageRecord](s.Store, "runpackage"),
		Current:   func() bool { return s.Store.Check() == nil },
		Dir:       s.config.Places().Runs,
		Sealer:    s.seals,
		Project:   projects.Open,
		Fetch:     projects.Fetch,
		MayActFor: s.judge.MayAskFor,
		Grants:    s.credentials,
		Publish:   s.clients.PublishTask,
		Audit:     known.record.CalledByRun,
		Approvals: approvals,
		Policy: run.Policy{
			FS:    run.FSPolicy{Enabled: c.FS, MaxReadBytes: int64(c.ReadBytes), MaxWriteBytes: int64(c.WriteBytes)},
			MCP:   run.MCPPolicy{Enabled: len(c.MCPServers) > 0, AllowedServers: c.MCPServers},
			Tools: c.Tools,
		},
		Limits:     pack.Limits{Zip: int64(c.Package)},
		Quota:      toolhost.Quota{Bytes: int64(c.StateBytes), Files: c.StateFiles},
		MaxTurns:   c.Turns,
		MaxRunning: c.Running,
		Keep:       time.Duration(c.KeepDays) * 24 * time.Hour,
		BridgeID:   s.config.ID,
		Log:        s.log,
		Registerer: s.metrics,
	}
	if s.config.Shared() {
		if err := shareRuns(ctx, s, d, &options); err != nil {
			return nil, err
		}
	}
	runs := run.New(options)
	if d.relay != nil {
		maps.Copy(d.relay.errands.does, runs.Errands())
	}
	return runs, nil
}

// shareRuns has runs and packages kept where all bridges of a cluster have them.
func shareRuns(ctx context.Context, s *state, d *domains, o *run.Options) error {
	logs, err := s.Store.OpenRunLogs(ctx)
	if err != nil {
		return err
	}
	blobs, err := s.Store.OpenRunBlobs(ctx)
	if err != nil {
		return err
	}
	o.Logs, o.Blobs, o.Node, o.Heir = logs, blobs, s.owner(), s.heir
	o.Elsewhere = func(ctx context.Context, node, do string, with, result any) error {
		n, err := cluster.ParseNode(node)
		if err != nil || d.relay == nil || !s.Members.Alive(n) {
			return protocol.Errorf(protocol.TargetUnavailable, "the bridge that had the run go on has ended").With("bridge_id", n.ID)
		}
		return d.relay.errands.have(ctx, n, do, with, result)
	}
	return nil
}
