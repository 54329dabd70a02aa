package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/commands/status"
)

func clusterDrainCommand() *cobra.Command {
	s := sessionFlags{show: writeDrained}
	var window int
	cmd := &cobra.Command{
		Use:   "drain NODE",
		Short: "End a bridge of a cluster in order: its clients go to the others, which take over what it keeps",
		Long: `End a bridge of a cluster in order, by asking any of them. It takes no more
clients, sends those that it has to the others, hands over their sessions and
what it does as the oldest, and ends with exit code 0. aibridge cluster status
shows it until it has.`,
		Example: `  aibridge cluster drain b2 --url http://b1:9010
  aibridge cluster drain b2 --window 60`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			params := map[string]any{"bridge_id": args[0]}
			if cmd.Flags().Changed("window") {
				params["window_seconds"] = window
			}
			return s.run(cmd, params, simply("bridge.drain"))
		},
	}
	s.addTarget(cmd)
	cmd.Flags().IntVar(&window, "window", 0, "over how many seconds its clients are sent away; its cluster.drain_window_seconds by default")
	return cmd
}

// writeDrained shows the answer of a bridge that was asked to end.
func writeDrained(w io.Writer, result json.RawMessage) error {
	var d status.DrainResult
	if err := json.Unmarshal(result, &d); err != nil {
		return err
	}
	if d.Already {
		_, err := fmt.Fprintf(w, "%s was draining already\n", printable(d.ID))
		return err
	}
	clients := fmt.Sprintf("%d clients go", d.Clients)
	if d.Clients == 1 {
		clients = "1 client goes"
	}
	_, err := fmt.Fprintf(w, "%s drains: %s elsewhere within %d s; %s %s over\n",
		printable(d.ID), clients, d.Window, printable(strings.Join(d.Others, ", ")), map[bool]string{true: "takes", false: "take"}[len(d.Others) == 1])
	return err
}
