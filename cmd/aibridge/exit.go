package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/protocol"
)

// Exit codes by class of error.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError marks an error as the command line's own.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitCode is the exit code for an error: ten times the first digit of its
// protocol code, if it has one.
func exitCode(err error) int {
	var coded *protocol.Error
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &coded) && len(coded.Code) == 4 && coded.Code[0] >= '1' && coded.Code[0] <= '5':
		return int(coded.Code[0]-'0') * 10
	}
	return exitFailed
}

// A hinted error has a hint for the user how to mend it.
type hinted struct {
	error
	hint string
}

func (e hinted) Unwrap() error { return e.error }

// printError prints the failure of a command, its details and the remedy.
func printError(w io.Writer, cmd *cobra.Command, err error) {
	lines := strings.Split(err.Error(), "\n") // which may be words of a device
	for i, line := range lines {
		lines[i] = printable(line)
	}
	fmt.Fprintln(w, "aibridge:", strings.Join(lines, "\n"))
	printDetails(w, err)
	if hint := (hinted{}); errors.As(err, &hint) {
		fmt.Fprintf(w, "  %s\n", hint.hint)
	}
	if exitCode(err) == exitUsage && cmd != nil {
		use := cmd.UseLine()
		if cmd.HasSubCommands() && cmd.DisableFlagsInUseLine {
			use += " COMMAND"
		}
		fmt.Fprintf(w, "  usage: %s\n  %s --help says more\n", use, cmd.CommandPath())
	}
}

// printDetails shows the details of a protocol error.
func printDetails(w io.Writer, err error) {
	var coded *protocol.Error
	if !errors.As(err, &coded) {
		return
	}
	rest := maps.Clone(coded.Details)
	for _, name := range []string{"param_name", "reason", "did_you_mean"} {
		text, ok := rest[name].(string)
		if !ok {
			continue
		}
		switch {
		case name == "did_you_mean":
			if !strings.Contains(coded.Message, "did you mean") {
				fmt.Fprintf(w, "  did you mean %s?\n", printable(text))
			}
			delete(rest, name)
		case strings.Contains(coded.Message, text):
			delete(rest, name)
		}
	}
	if problems, ok := rest["problems"].([]any); ok {
		for _, problem := range problems[min(1, len(problems)):] { // the message is the first
			if p, ok := problem.(map[string]any); ok {
				fmt.Fprintf(w, "  %s: %s\n", cell(p["param_name"]), cell(p["reason"]))
			}
		}
		delete(rest, "problems")
	}
	if len(rest) == 0 {
		return
	}
	if details, err := json.Marshal(rest); err == nil {
		fmt.Fprintf(w, "  %s\n", jsonLine(details))
	}
}
