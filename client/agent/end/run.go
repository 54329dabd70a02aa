package end

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/client/agent/script"
	"github.com/aibridge/aibridge/client/agent/skill"
	"github.com/aibridge/aibridge/protocol"
)

// Options configure [Run].
type Options struct {
	Client    *client.Client   // dialled with client.WithAgent; Run does not close it
	AgentID   protocol.AgentID // as given to client.WithAgent
	SkillsDir string           // the directory of skill folders

	Joins map[protocol.SkillID]string // join tokens of skills that have other owners

	Scripts script.Options     // zero values are the defaults
	Watch   skill.WatchOptions // zero values are the defaults
	Drain   time.Duration      // how long running scripts may go on when the agent stops; 5 seconds
	Log     *slog.Logger       // slog.Default
}

// Run serves the skills of a directory until ctx ends, or the client does,
// which is an error. Before it returns it
// waits for the scripts that run, and ends those that take longer than
// Options.Drain. The skills stay registered: the bridge shows them as offline.
func Run(ctx context.Context, o Options) error {
	return run(ctx, o, newConnection(o.Client, o.AgentID))
}

func run(ctx context.Context, o Options, to bridge) error {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Drain <= 0 {
		o.Drain = 5 * time.Second
	}
	if o.Scripts.Log == nil {
		o.Scripts.Log = o.Log
	}
	if reason := o.AgentID.Rule().Check(string(o.AgentID)); reason != "" {
		return errors.New("the agent's id " + reason)
	}
	runner, err := script.New(o.Scripts)
	if err != nil {
		return err
	}
	a := newAgent(o, runner)
	defer a.end(nil)
	library := skill.NewLibrary(o.SkillsDir, o.Log)
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return library.Watch(running, o.Watch, a.changed) })
	group.Go(func() error { a.keepRegistered(running, to); return nil })
	group.Go(func() error {
		select {
		case <-to.ended():
			return to.lost()
		case <-running.Done():
			return nil
		}
	})
	err = group.Wait()
	a.drain()
	return err
}

// agent is a running end agent.
type agent struct {
	o      Options
	runner *script.Runner

	mu     sync.Mutex
	skills map[protocol.SkillID]*skill.Skill // as the folders say
	wake   chan struct{}                     // skills changed

	stop    context.Context // ends when running scripts must
	end     context.CancelCauseFunc
	stopped bool           // no more calls; under mu
	calls   sync.WaitGroup // under mu while not stopped
}

func newAgent(o Options, runner *script.Runner) *agent {
	a := &agent{o: o, runner: runner, skills: map[protocol.SkillID]*skill.Skill{}, wake: make(chan struct{}, 1)}
	a.stop, a.end = context.WithCancelCause(context.Background())
	return a
}

// changed takes over changes of the folders. Calls see them at once, the bridge a little
// later.
func (a *agent) changed(c skill.Changes) {
	a.mu.Lock()
	for _, s := range append(c.Added, c.Changed...) {
		a.skills[s.ID] = s
	}
	for _, id := range c.Removed {
		delete(a.skills, id)
	}
	a.mu.Unlock()
	for _, s := range c.Added {
		a.o.Log.Info("skill found", "skill", s.ID, "version", s.Version, "folder", s.Dir)
	}
	for _, s := range c.Changed {
		a.o.Log.Info("skill changed", "skill", s.ID, "version", s.Version, "folder", s.Dir)
	}
	for _, id := range c.Removed {
		a.o.Log.Info("skill removed", "skill", id)
	}
	select {
	case a.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// begin admits a call, or fails if the agent is stopping.
func (a *agent) begin(id protocol.SkillID) (*skill.Skill, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return nil, protocol.Errorf(protocol.ShuttingDown, "the agent is stopping")
	}
	s := a.skills[id]
	if s == nil {
		return nil, client.Rejected("it does not serve the skill " + string(id) + " any more") // others may
	}
	a.calls.Add(1)
	return s, nil
}

// handle runs one invocation. It is a [client.Handler].
func (a *agent) handle(ctx context.Context, in *client.Invocation) (any, error) {
	s, err := a.begin(in.SkillID)
	if err != nil {
		return nil, err
	}
	defer a.calls.Done()
	if in.CapabilityID == documentID && s.Documented {
		return readDocument(s, in.Params)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.stop, func() { cancel(context.Cause(a.stop)) })() //nolint:contextcheck // the agent's end is another one than the call's
	return a.runner.Run(ctx, script.Job{
		Skill:       s,
		Capability:  in.CapabilityID,
		Params:      in.Params,
		AgentID:     a.o.AgentID,
		CallID:      in.ID,
		TraceID:     in.TraceID,
		Caller:      in.Caller,
		Traceparent: in.Traceparent,
		Progress:    in.Progress,
	})
}

// drain refuses new calls and waits for those that run; when their time is
// up they are ended.
func (a *agent) drain() {
	a.mu.Lock()
	a.stopped = true
	a.mu.Unlock()
	timer := time.AfterFunc(a.o.Drain, func() {
		a.end(protocol.Errorf(protocol.ShuttingDown, "the agent is stopping"))
	})
	defer timer.Stop()
	a.calls.Wait()
}
