package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/internal/clusterkey"
)

func clusterRotateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rotate FILE NEW",
		Short: "Make the key of a cluster with which the rotation of its routes goes on",
		Long: `Make NEW, the key with which the rotation of the key of the routes goes on, from
FILE, the key of a cluster that bridges form. It takes three steps. After each, give
every bridge a copy of NEW in the place of FILE and restart them one after the other,
before you make the key of the next step from NEW:

  1. a new key is let in, and the old one shown
  2. the new key is shown, and the old one let in
  3. the old key is let in no more`,
		Example: `  aibridge cluster rotate home.key home-1.key`,
		Args:    exactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := clusterkey.Read(args[0])
			if err != nil {
				return err
			}
			next, step := key.Rotate()
			if err := writeClusterKey(args[1], next); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "made %s, step %d of 3: %s. Give each bridge a copy, and restart them one after the other\n", args[1], step, stepNames[step])
			return nil
		},
	}
}

// stepNames describe the behaviour of a bridge from each step on.
var stepNames = map[clusterkey.Step]string{
	clusterkey.Announced: "a new key is let in",
	clusterkey.Turned:    "the new key is shown",
	clusterkey.Finished:  "the old key is let in no more",
}
