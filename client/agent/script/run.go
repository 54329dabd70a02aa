package script

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/aibridge/aibridge/client/agent/skill"
	"github.com/aibridge/aibridge/protocol"
)

// errOutput is the reason why a script that writes too much is killed.
var errOutput = errors.New("output over the limit")

// exitState is the end of a script.
type exitState struct {
	script skill.Script
	stdout []byte
	stderr string // the end of it
	err    error  // nil for exit status 0, *exec.ExitError for another, or a failure to start
}

// run starts the script, waits for it and reads its result.
func (r *Runner) run(ctx context.Context, job *Job, capability *skill.Capability, file skill.Script) (json.RawMessage, error) {
	start := time.Now()
	end, err := r.execute(ctx, job, capability, file)
	var result json.RawMessage
	if err == nil {
		result, err = end.result()
	}
	log := r.o.Log.With("skill", job.Skill.ID, "capability", job.Capability, "trace", job.TraceID, "took", time.Since(start))
	if err != nil {
		log.Log(ctx, levelOf(err), "script failed", "script", file.Path, "error", err, "stderr", end.stderr)
		return nil, err
	}
	log.DebugContext(ctx, "script ended", "script", file.Path, "bytes", len(result), "stderr", end.stderr)
	return result, nil
}

// levelOf is the level at which a failure is logged: those of the skill are more
// serious than mistakes of callers.
func levelOf(err error) slog.Level {
	switch protocol.CodeOf(err) {
	case protocol.Internal, protocol.TargetUnavailable, protocol.TimedOut, protocol.OutcomeUnknown:
		return slog.LevelWarn
	default:
		return slog.LevelInfo
	}
}

// execute runs the process. The error is set when it did not end by itself;
// how it ended by itself is in the outcome.
func (r *Runner) execute(parent context.Context, job *Job, capability *skill.Capability, file skill.Script) (exitState, error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	deadline, _ := ctx.Deadline()
	stdout := &output{limit: r.o.MaxOutput, full: func() { cancel(errOutput) }}
	stderr := &diagnostics{progress: job.Progress, now: time.Now}

	var group group
	command := func() *exec.Cmd {
		c := r.command(ctx, job, file)
		c.Env = r.environment(job, capability, deadline)
		c.Stdin = bytes.NewReader(job.Params)
		c.Stdout, c.Stderr = stdout, stderr
		c.Cancel = func() error { group.terminate(r.o.Grace); return nil }
		c.WaitDelay = r.o.Grace + time.Second // the pipes are given up then in any case
		return c
	}
	// The process must not outlive the thread it is started from, see
	// ownGroup, which waits for it all the while anyway.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := start(command, &group)
	if err == nil {
		err = group.wait(c)
	}
	end := exitState{script: file, stdout: stdout.buf.Bytes(), stderr: stderr.close(), err: err}
	switch {
	case stdout.over:
		return end, protocol.Errorf(protocol.Internal, "%s wrote more than %d bytes", file.Path, r.o.MaxOutput)
	case parent.Err() != nil && err != nil:
		return end, end.explain(interrupted(parent, capability))
	}
	return end, nil
}

// interrupted is the error of a script that was ended because ctx is over. An agent
// that stops does not know how much of the work was done, so the caller may repeat
// it only if that does no harm.
func interrupted(ctx context.Context, capability *skill.Capability) error {
	err := ended(ctx)
	if protocol.CodeOf(err) == protocol.ShuttingDown && !capability.Repeatable() {
		return protocol.Wrap(protocol.OutcomeUnknown, err, "the agent stopped while the script was running")
	}
	return err
}

// command is the process of a script. Between the look-up of the file and its start the
// folder may change: a user that can change it may run any program anyway.
func (r *Runner) command(ctx context.Context, job *Job, file skill.Script) *exec.Cmd {
	path := filepath.Join(job.Skill.Dir, file.Path)
	words := []string{path}
	if file.Shell {
		words = []string{shell(), path}
	}
	c := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // running the skill's scripts is the point
	c.Dir = job.Skill.Dir
	c.SysProcAttr = ownGroup()
	return c
}

// shell runs scripts that do not name their interpreter.
func shell() string {
	if path, err := exec.LookPath("bash"); err == nil {
		return path
	}
	return "/bin/sh"
}

// start starts a process. A file that is just being written by another
// process ("text file busy") is given a moment.
func start(command func() *exec.Cmd, g *group) (*exec.Cmd, error) {
	for tries := 0; ; tries++ {
		c := command()
		err := g.start(c)
		if !errors.Is(err, syscall.ETXTBSY) || tries == 300 { // 3 s, and more on a busy machine
			return c, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}
