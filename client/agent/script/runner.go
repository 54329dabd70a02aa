package script

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/aibridge/aibridge/client/agent/skill"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/protocol"
)

// Options configure a [Runner]. Zero values are the defaults.
type Options struct {
	Concurrent int           // scripts that run at a time, of which a caller has a share (package fair); 32
	Waiting    int           // calls that may wait for a turn, shared likewise, beyond them 4008; 128
	MaxOutput  int           // bytes on standard output; 1 MiB
	MaxTime    time.Duration // of a call without a deadline; 10 minutes
	Grace      time.Duration // between the polite signal and the one that kills; 1 second
	PassEnv    []string      // names of the agent's environment variables that scripts get
	Log        *slog.Logger  // slog.Default
}

// A Job is one run of a capability.
type Job struct {
	Skill      *skill.Skill
	Capability protocol.CapabilityID
	Params     json.RawMessage // an object; empty means {}
	AgentID    protocol.AgentID
	CallID     string
	TraceID    string
	Caller     string // tells callers apart, which share the turns; "" for administrators

	// Traceparent is the W3C trace context, "" without one.
	Traceparent string

	// Progress is called with the script's progress, 0 to 100 percent, and a
	// message of at most 512 bytes that may be empty; at most ten times a second,
	// from another goroutine but never after Run has returned. It may be nil and
	// must not block.
	Progress func(percent float64, message string)
}

// A Runner runs scripts, a bounded number at a time. It is safe for
// concurrent use.
type Runner struct {
	o     Options
	base  []string // environment that all scripts share
	turns *fair.Semaphore
}

// New makes a Runner. It refuses to pass on variables of the bridge's own,
// which may hold its secrets.
func New(o Options) (*Runner, error) {
	setDefault(&o.Concurrent, 32)
	setDefault(&o.Waiting, 128)
	setDefault(&o.MaxOutput, 1<<20)
	setDefault(&o.MaxTime, 10*time.Minute)
	setDefault(&o.Grace, time.Second)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	for _, name := range o.PassEnv {
		if strings.HasPrefix(strings.ToUpper(name), "AIBRIDGE_") {
			return nil, fmt.Errorf("the variable %s is the bridge's own and is not passed to scripts", name)
		}
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return nil, fmt.Errorf("%q is not the name of an environment variable", name)
		}
	}
	return &Runner{o: o, base: baseEnv(os.LookupEnv, o.PassEnv), turns: fair.New(fair.Options{
		What: "scripts", Capacity: int64(o.Concurrent), Waiting: o.Waiting,
	})}, nil
}

func setDefault[T int | time.Duration](v *T, fallback T) {
	if *v <= 0 {
		*v = fallback
	}
}

// Run runs a capability and returns its output. Errors are protocol errors: 3001
// for an unknown capability, 4006 without a script, 4007 at the deadline, 4008 when
// too many wait, 4013 when cancelled, otherwise the code for the script's exit
// status. If ctx was ended with a protocol error as its cause, that is the error.
func (r *Runner) Run(ctx context.Context, job Job) (json.RawMessage, error) {
	capability := job.Skill.Capability(job.Capability)
	if capability == nil {
		return nil, protocol.Errorf(protocol.NotFound, "the skill %s has no capability %s", job.Skill.ID, job.Capability)
	}
	if len(job.Params) == 0 {
		job.Params = json.RawMessage("{}")
	}
	job.Params = capability.Params.Complete(job.Params)
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.o.MaxTime)
		defer cancel()
	}
	party := fair.Party{Principal: job.Caller, Privileged: job.Caller == ""}
	if err := r.takeTurn(ctx, party); err != nil {
		return nil, err
	}
	defer r.turns.Release(party, 1)
	file, err := job.Skill.Script(job.Capability) // looked up last: it may have changed while waiting
	if err != nil {
		return nil, err
	}
	return r.run(ctx, &job, capability, file)
}

// takeTurn waits for a place among those that run.
func (r *Runner) takeTurn(ctx context.Context, who fair.Party) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	err := r.turns.Acquire(ctx, who, 1)
	if err != nil && ctx.Err() != nil {
		return ended(ctx)
	}
	return err
}

// ended is the error of a context that is over.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	switch protocol.CodeOf(cause) {
	case protocol.TimedOut:
		return protocol.Wrap(protocol.TimedOut, cause, "the script did not end in time")
	case protocol.Cancelled:
		return protocol.Wrap(protocol.Cancelled, cause, "the call was cancelled")
	default:
		return protocol.AsError(cause)
	}
}
