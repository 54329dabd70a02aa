package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/commands/status"
)

func clusterCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "cluster", Short: "Join bridges, and see those that share a state"}
	cmd.AddCommand(clusterInitCommand(), clusterRotateCommand(), clusterStatusCommand(), clusterDrainCommand(), clusterRemoveCommand())
	return cmd
}

func clusterStatusCommand() *cobra.Command {
	s := sessionFlags{show: writeCluster}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the living bridges of a cluster, the oldest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.run(cmd, map[string]any{}, simply("bridge.cluster"))
		},
	}
	s.addTarget(cmd)
	return cmd
}

// writeCluster shows the bridges of a cluster, and the failing parts of the
// answering one.
func writeCluster(w io.Writer, result json.RawMessage) error {
	var c status.ClusterResult
	if err := json.Unmarshal(result, &c); err != nil {
		return err
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "NODE\tEPOCH\tSTATE\tREADY\tLEASE\tSINCE\tVERSION\tMQTT\t")
	for _, m := range c.Members {
		ready := "yes"
		if !m.Ready {
			ready = "no: " + cmp.Or(printable(m.Why), "not yet")
		}
		fmt.Fprintf(out, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", printable(m.ID), m.Epoch, printable(string(m.State)), ready,
			time.Duration(m.Age)*time.Millisecond, time.UnixMilli(m.Started).Format("2006-01-02 15:04:05"), printable(m.Version), cmp.Or(printable(m.Addresses["mqtt"]), "-"))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for _, a := range c.Absent {
		fmt.Fprintf(w, "%s is away (%s), and its copy of the state at %s counts as missing: start it again, or remove it (aibridge cluster remove)\n", printable(a.ID), printable(string(a.State)), printable(a.Keeps))
	}
	if err := writePeers(w, c.BridgeID, c.Peers); err != nil {
		return err
	}
	for _, p := range c.Parts {
		if !p.OK {
			fmt.Fprintf(w, "%s of %s does not work: %s\n", printable(p.Name), printable(c.BridgeID), printable(p.Why))
		}
	}
	return nil
}

// writePeers shows the lines from the answering bridge to the others.
func writePeers(w io.Writer, from string, peers []status.Peer) error {
	if len(peers) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\nMessages of %s to\n", printable(from))
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "NODE\tFLOW\tBY\tADDRESS\tSINCE\tQUEUED\tDROPPED\t")
	for _, p := range peers {
		flow, since := "yes", "-"
		if !p.Open {
			flow = "no"
		}
		if p.ServedBy != "" {
			flow += ", to " + printable(p.ServedBy)
		}
		if p.Since != 0 {
			since = time.UnixMilli(p.Since).Format("2006-01-02 15:04:05")
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t\n", printable(p.BridgeID), flow, printable(string(p.By)), cmp.Or(printable(p.Address), "-"), since, p.Queued, p.Dropped)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for _, p := range peers {
		if p.ServedBy != "" {
			fmt.Fprintf(w, "%s has ended; %s serves its sessions\n", printable(p.BridgeID), printable(p.ServedBy))
		}
		if p.Why != "" {
			fmt.Fprintf(w, "no direct connection with %s: %s\n", printable(p.BridgeID), printable(p.Why))
		}
	}
	return nil
}
