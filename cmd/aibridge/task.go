package main

import (
	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/protocol"
)

func taskCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "task", Short: "See tasks, watch them, and cancel them"}
	cmd.AddCommand(taskFollowCommand(), taskWatchCommand())
	return cmd
}

func taskWatchCommand() *cobra.Command {
	var target target
	var shown format
	cmd := &cobra.Command{
		Use:               "watch [TASK_ID]",
		Short:             "Show the events of a task, or of all tasks, until interrupted",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeArguments(&target, "task.get", "task_id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := target.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			filter := c.Topics().Root() + "/task/+/event"
			if len(args) > 0 {
				filter = c.Topics().TaskEvent(protocol.TaskID(args[0]))
			}
			return watchTopics(cmd.Context(), c, &eventPrinter{out: cmd.OutOrStdout(), shown: shown}, []string{filter})
		},
	}
	target.addFlags(cmd.Flags())
	shown.addFlags(cmd)
	return cmd
}
