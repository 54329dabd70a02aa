package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func policyReportCommand() *cobra.Command {
	var s sessionFlags
	var outcome string
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Tell what policies on trial would have decided otherwise",
		Long: `Tell what policies on trial would have decided otherwise since they were put
there by aibridge policy put --observe: refuse what is permitted, allow what is
refused, have somebody asked about a model's call (ask), or let one run without
(run).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			params := map[string]any{"limit": 256}
			optional(params, "outcome", outcome)
			s.show = writeReport
			return s.run(cmd, params, simply("policy.report"))
		},
	}
	s.addTarget(cmd)
	cmd.Flags().StringVar(&outcome, "outcome", "", "only refuse, allow, ask or run")
	return cmd
}

// writeReport shows the findings of a trial, the most frequent first.
func writeReport(w io.Writer, result json.RawMessage) error {
	var r struct {
		Trials   []string
		Since    int64
		Judged   uint64
		More     uint64
		Findings []struct {
			Outcome, Action, Kind, Policy string
			Count                         uint64
			Examples                      []struct{ Principal, Resource string }
		}
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "on trial: %s, since %s\n", strings.Join(r.Trials, ", "), time.UnixMilli(r.Since).Format(time.DateTime))
	if len(r.Findings) == 0 {
		fmt.Fprintf(&b, "nothing was decided otherwise, of %d decisions\n", r.Judged)
	}
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for i, f := range r.Findings {
		if i == 0 {
			fmt.Fprintln(table, "WOULD\tCOUNT\tACTION\tPOLICY\tFOR INSTANCE")
		}
		var examples []string
		for _, x := range f.Examples {
			examples = append(examples, strings.TrimSuffix(f.Kind+":"+x.Principal+" "+x.Resource, " "))
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n", f.Outcome, f.Count, f.Action, cmp.Or(f.Policy, "none permits it"), strings.Join(examples, ", "))
	}
	_ = table.Flush()
	if r.More > 0 {
		fmt.Fprintf(&b, "and %d decisions more\n", r.More)
	}
	_, err := io.WriteString(w, legible(b.String()))
	return err
}
