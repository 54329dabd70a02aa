package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// explainUsage has a command and those below it refuse unknown arguments as wrong
// use, in words. A command that only leads to others shows its help.
func explainUsage(cmd *cobra.Command) {
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = unknownVerb
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		cmd.DisableFlagsInUseLine = true
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err == nil {
				return nil
			}
			return usageError{inWords(err, cmd, args)}
		}
	}
	for _, sub := range cmd.Commands() {
		explainUsage(sub)
	}
}

// inWords is an error of cobra's about the number of arguments, for people.
func inWords(err error, cmd *cobra.Command, args []string) error {
	switch text := err.Error(); {
	case strings.HasPrefix(text, "accepts "), strings.HasPrefix(text, "requires "):
		switch missing := missingArguments(cmd.Use, len(args)); len(missing) {
		case 0:
		case 1:
			return fmt.Errorf("%s is missing", missing[0])
		default:
			return fmt.Errorf("%s are missing", strings.Join(missing, " and "))
		}
		if len(args) == 0 {
			return err
		}
		return fmt.Errorf("%q is more than %s takes", args[len(args)-1], cmd.CommandPath())
	case strings.HasPrefix(text, "unknown command ") && !cmd.HasSubCommands(): // cobra.NoArgs
		return fmt.Errorf("%s takes no %q", cmd.CommandPath(), args[0])
	}
	return err
}

// missingArguments are the names of arguments in a line of use that come after
// those given.
func missingArguments(use string, given int) (missing []string) {
	for _, word := range strings.Fields(use)[1:] {
		if strings.HasPrefix(word, "[") || strings.HasPrefix(word, "-") {
			break
		}
		if given--; given < 0 {
			missing = append(missing, word)
		}
	}
	return missing
}

// unknownVerb refuses arguments of a command that has commands below it: they
// name none of them.
func unknownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("%s has no command %q", cmd.CommandPath(), args[0])
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
	}
	return usageError{err}
}
