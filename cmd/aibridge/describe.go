package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/protocol"
)

func describeCommand() *cobra.Command {
	var markdown, typescript bool
	cmd := &cobra.Command{
		Use:               "describe [COMMAND]",
		Short:             "Show the commands a bridge understands",
		Long:              "Show the commands this version understands. No bridge needs to run for it.",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			set := app.Commands()
			if markdown {
				if err := set.CheckMeanings(); err != nil {
					return err
				}
				return commands.WriteMarkdown(cmd.OutOrStdout(), set)
			}
			if typescript {
				return commands.WriteTypeScript(cmd.OutOrStdout(), set)
			}
			if len(args) == 0 {
				return listCommands(cmd, set)
			}
			command, ok := set.Find(args[0])
			if !ok {
				if near, ok := set.Nearest(args[0]); ok {
					return protocol.Errorf(protocol.UnknownCommand, "no command %q; did you mean %q?", args[0], near)
				}
				return hinted{protocol.Errorf(protocol.UnknownCommand, "no command %q", args[0]), "aibridge describe lists them"}
			}
			return describeOne(cmd, command)
		},
	}
	cmd.Flags().BoolVar(&typescript, "typescript", false, "the types of all of them, for programs in TypeScript")
	cmd.Flags().BoolVar(&markdown, "markdown", false, "all of them, as docs/commands.md")
	return cmd
}

func listCommands(cmd *cobra.Command, set *commands.Set) error {
	out := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for command := range set.All() {
		fmt.Fprintf(out, "%s\t%s\n", command.Name, command.Summary)
	}
	return out.Flush()
}

func describeOne(cmd *cobra.Command, command *commands.Command) error {
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s: %s\n\naction   %s\n", command.Name, command.Summary, command.Action)
	for _, code := range command.Errors {
		fmt.Fprintf(out, "error    %s %s\n", string(code), code)
	}
	if command.Example != "" {
		fmt.Fprintf(out, "example  %s\n", command.Example)
	}
	fmt.Fprintln(out, "\nparams")
	if err := writeJSON(out, command.ParamsSchema()); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nresult")
	return writeJSON(out, command.ResultSchema())
}
