package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/sdk/conformance"
)

func conformanceCommand() *cobra.Command {
	var o conformance.Options
	var verbose, whole bool
	cmd := &cobra.Command{
		Use:   "conformance PROGRAM [argument…]",
		Short: "Test a device, and so the SDK it is written with, against the protocol",
		Long: `Start a program as a device and play the bridge to it: calls, cancellations,
repeats, garbage, lost connections. Every clause of the protocol is told as
passed or failed, and what the device did instead. The program knows the bridge
by its environment (AIBRIDGE_URL, AIBRIDGE_API_KEY, AIBRIDGE_AGENT_ID) and serves
the skill of docs/sdk-conformance.md. No bridge has to run. A program with
arguments comes after --: aibridge conformance -- python3 device.py`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Command, o.CheckParams = args, declaredParams
			if verbose {
				o.Output = cmd.ErrOrStderr()
			}
			if !whole {
				o.Progress = func(r conformance.Result) { fmt.Fprintln(cmd.OutOrStdout(), r) }
			}
			report, err := conformance.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			if whole {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(report)
			} else {
				err = report.WriteSummary(cmd.OutOrStdout())
			}
			if failed := report.Count(conformance.Failed); err == nil && failed > 0 {
				err = fmt.Errorf("the device does not conform: %d of %d clauses failed", failed, len(report.Results))
			}
			return err
		},
	}
	cmd.Flags().StringSliceVar(&o.Only, "only", nil, "clauses to run, by their names or beginnings of names, such as reconnect/")
	cmd.Flags().DurationVar(&o.Patience, "patience", 30*time.Second, "how long the device may take for one step")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show what the device prints")
	cmd.Flags().BoolVar(&whole, "json", false, "show the report as JSON, at the end")
	return cmd
}

// declaredParams checks the device's params by the declarations of the bridge's own
// commands.
func declaredParams(command string, params json.RawMessage) error {
	c, ok := app.Commands().Find(command)
	if !ok {
		return fmt.Errorf("there is no command %s", command)
	}
	return c.CheckParams(params)
}
