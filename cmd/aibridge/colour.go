package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
)

// When results are coloured: the values of --color.
const (
	colourAuto   = "auto"
	colourAlways = "always"
	colourNever  = "never"
)

var colourChoices = []string{colourAuto, colourAlways, colourNever}

// addColour adds the flag --color to a command and those below it.
func addColour(cmd *cobra.Command) {
	cmd.PersistentFlags().String("color", colourAuto, "colour results for people: auto (on a terminal, unless NO_COLOR is set), always or never")
	_ = cmd.RegisterFlagCompletionFunc("color", cobra.FixedCompletions(colourChoices, cobra.ShellCompDirectiveNoFileComp))
}

// checkColour refuses another value.
func checkColour(cmd *cobra.Command) error {
	if f := cmd.Flag("color"); f != nil && !slices.Contains(colourChoices, f.Value.String()) {
		return usageError{fmt.Errorf("--color %q is none of %v", f.Value, colourChoices)}
	}
	return nil
}

// A painted writer is one whose readers see colours.
type painted struct{ io.Writer }

// output is the place where a command writes its result: painted if it is to have
// colours.
func output(cmd *cobra.Command) io.Writer {
	w, when := cmd.OutOrStdout(), colourAuto
	if f := cmd.Flag("color"); f != nil {
		when = f.Value.String()
	}
	if coloured(when, terminal(w), os.Getenv) {
		return painted{w}
	}
	return w
}

// coloured reports whether results have colours. NO_COLOR is that of
// https://no-color.org.
func coloured(when string, terminal bool, getenv func(string) string) bool {
	switch when {
	case colourAlways:
		return true
	case colourNever:
		return false
	}
	return terminal && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}

// An ink writes words in colours, if it is wet.
type ink bool

func inkOf(w io.Writer) ink {
	_, ok := w.(painted)
	return ink(ok)
}

// Colours of states, and the one of everything else. All are as long as each
// other, so that columns stay aligned.
const (
	green      = "\x1b[32m"
	yellow     = "\x1b[33m"
	red        = "\x1b[31m"
	uncoloured = "\x1b[39m"

	bold    = "\x1b[1m"
	notBold = "\x1b[22m"
)

// colours are the colours of the bridge's words for states.
var colours = map[string]string{
	"ok": green, "online": green, "live": green, "valid": green, "connected": green, "completed": green, "done": green, "approved": green,
	"allow": green, "ready": green, "healthy": green, "used": green,
	"warning": yellow, "pending": yellow, "waiting": yellow, "running": yellow, "suspended": yellow, "cancelled": yellow, "kept": yellow,
	"problem": red, "failed": red, "error": red, "revoked": red, "expired": red, "denied": red, "deny": red, "offline": red, "withdrawn": red,
}

// tells reports whether a field of a result is a state.
func tells(field string) bool {
	switch field {
	case "status", "state", "severity", "decision", "outcome", "phase":
		return true
	}
	return false
}

// state is a cell of a field that is a state, in its colour.
func (i ink) state(field, text string) string {
	if !bool(i) || !tells(field) {
		return text
	}
	return i.word(text)
}

// word is a word of a state in its colour. All words get equally longer.
func (i ink) word(text string) string {
	if !i {
		return text
	}
	colour, ok := colours[text]
	if !ok {
		colour = uncoloured
	}
	return colour + text + uncoloured
}

// headline makes the first line of a page from an offset on bold.
func (i ink) headline(page *bytes.Buffer, from int) {
	if !i {
		return
	}
	table := bytes.Clone(page.Bytes()[from:])
	page.Truncate(from)
	line, rest, _ := bytes.Cut(table, []byte("\n"))
	fmt.Fprintf(page, "%s%s%s\n", bold, line, notBold)
	page.Write(rest)
}
