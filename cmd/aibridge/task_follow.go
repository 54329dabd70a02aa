package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

func taskFollowCommand() *cobra.Command {
	var target target
	var shown format
	cmd := &cobra.Command{
		Use:   "follow TASK_ID",
		Short: "Show the events of a task on standard error until it has ended, and then its result",
		Long: `Show the events of a task as they come, on standard error, until the task has
ended, and then its result. It may wait for days, for somebody to agree to a
call: interrupt it and follow the task again whenever you like. The id of a run of
a workflow is followed like by aibridge run follow.`,
		Example:           "  aibridge task follow 01980a3e-9f6b-7c54-8b1e-3f2d6a7c9e10",
		Args:              exactArgs(1),
		ValidArgsFunction: completeArguments(&target, "task.get", "task_id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := target.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			t, err := followTask(cmd.Context(), c, cmd.ErrOrStderr(), protocol.TaskID(args[0]))
			switch {
			case isRun(err):
				follower := runFollower{shown: shown}
				return follower.follow(cmd, c, "llm.run.status", map[string]any{"run_id": args[0]})
			case err != nil:
				return err
			}
			return t.show(cmd.OutOrStdout(), shown)
		},
	}
	target.addFlags(cmd.Flags())
	shown.addFlags(cmd)
	return cmd
}

// A followedTask is the shown part of a task.
type followedTask struct {
	State string `json:"state"`
	Waits *struct {
		Approval string `json:"approval_id"`
		Tool     string `json:"tool"`
		Expires  int64  `json:"expires_at"`
	} `json:"waits"`
	Result  json.RawMessage `json:"result"`
	Failure *struct {
		Code    protocol.Code  `json:"code"`
		Message string         `json:"message"`
		Details map[string]any `json:"details"`
	} `json:"error"`
}

// over reports whether the task has ended. A rollout that is paused or aborted has not:
// it may be resumed.
func (t *followedTask) over() bool {
	switch t.State {
	case "pending", "waiting", "running", "paused", "aborted":
		return false
	}
	return true
}

// lookEvery is the interval at which a task is asked for whose events may be lost.
const lookEvery = 10 * time.Second

// isRun reports whether the bridge says that the id of a task is that of a run.
func isRun(err error) bool {
	var coded *protocol.Error
	return errors.As(err, &coded) && coded.Code == protocol.NotFound && coded.Details["run_id"] != nil
}

// followTask shows the events of a task until it has ended.
func followTask(ctx context.Context, c *client.Client, notes io.Writer, id protocol.TaskID) (*followedTask, error) {
	if _, err := client.Call[followedTask](ctx, c, "task.get", map[string]any{"task_id": id}); err != nil {
		return nil, err
	}
	happened := make(chan struct{}, 1)
	printer := &eventPrinter{out: notes}
	if _, err := c.Subscribe(ctx, c.Topics().TaskEvent(id), func(ctx context.Context, m client.Message) {
		printer.print(ctx, m)
		select {
		case happened <- struct{}{}:
		default:
		}
	}); err != nil {
		return nil, fmt.Errorf("follow the task: %w", err)
	}
	told := false
	for {
		t, err := client.Call[followedTask](ctx, c, "task.get", map[string]any{"task_id": id})
		if err != nil || t.over() {
			return &t, err
		}
		if t.Waits != nil && !told {
			told = true
			fmt.Fprintf(notes, "%s waits for somebody to agree until %s: aibridge approvals show %s\n",
				cell(t.Waits.Tool), time.UnixMilli(t.Waits.Expires).Format(time.DateTime), cell(t.Waits.Approval))
		}
		select {
		case <-happened:
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// show shows the end of a task: the words of a model as they are, other results
// as JSON.
func (t *followedTask) show(out io.Writer, shown format) error {
	if t.Failure != nil {
		return &protocol.Error{Code: t.Failure.Code, Message: t.Failure.Message, Details: t.Failure.Details}
	}
	var said struct {
		Result *string `json:"result"`
	}
	if !shown.whole() && json.Unmarshal(t.Result, &said) == nil && said.Result != nil {
		_, err := fmt.Fprintln(out, legible(strings.TrimSuffix(*said.Result, "\n")))
		return err
	}
	return shown.write(out, t.Result, writeTable)
}
