package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/commands/status"
)

func clusterRemoveCommand() *cobra.Command {
	s := sessionFlags{show: writeRemoved}
	cmd := &cobra.Command{
		Use:   "remove NODE",
		Short: "Remove a bridge that has ended for good: its copies are made on others, and its id is used no more",
		Long: `Remove a bridge that has ended for good, by asking any other of its cluster. Its
copies of the state are made on others as far as there are enough, it is waited for
no more when leaders are elected, and no bridge starts with its id again. Kept
sessions of it stay with the bridge that serves them.

A bridge that lives is refused: drain it first, or stop it. One that comes back, also
with a new disk, is not to be removed.`,
		Example: `  aibridge cluster remove b3 --url http://b1:9010`,
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd, map[string]any{"bridge_id": args[0]}, simply("bridge.remove"))
		},
	}
	s.addTarget(cmd)
	return cmd
}

// writeRemoved shows the answer to a removal.
func writeRemoved(w io.Writer, result json.RawMessage) error {
	var r status.RemoveResult
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	how := "is removed"
	if r.Already {
		how = "was removed before"
	}
	fmt.Fprintf(w, "%s %s, and its id is used no more\n", printable(r.BridgeID), how)
	if r.Keepers > 0 {
		fmt.Fprintf(w, "%d bridges keep the state now\n", r.Keepers)
	}
	if r.Lacking > 0 {
		fmt.Fprintf(w, "%d streams have fewer copies than they are to have, until another bridge takes its place\n", r.Lacking)
	}
	if r.Address != "" {
		fmt.Fprintf(w, "start that one with an id of its own, at %s or with another address for that in cluster.join\n", printable(r.Address))
	}
	if r.ServedBy != "" {
		fmt.Fprintf(w, "%s serves its sessions until their clients come back, or they expire\n", printable(r.ServedBy))
	}
	return nil
}
