package commands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/aibridge/aibridge/commands/schema"
	"github.com/aibridge/aibridge/protocol"
)

// WriteMarkdown writes the reference of all commands of a set, which is kept
// as docs/commands.md.
func WriteMarkdown(w io.Writer, set *Set) error {
	var b bytes.Buffer
	b.WriteString(`<!-- Written by "aibridge describe --markdown" from the declarations of the commands. Do not edit. -->

# Commands

Every command is a request envelope on ` + "`aibridge/bridge/request`" + `, or a POST to ` + "`/api/v1/commands/{command}`" + `
with its params. Besides the errors listed with it, any command may answer ` + anyCommand() + `.

A parameter that is not marked *required* may be left out; unknown ones are refused.

`)
	last := ""
	for c := range set.All() {
		if c.Family() != last {
			fmt.Fprintf(&b, "- **%s**:", c.Family())
			for other := range set.All() {
				if other.Family() == c.Family() {
					fmt.Fprintf(&b, " [%s](#%s)", other.Name, anchor(other.Name))
				}
			}
			b.WriteByte('\n')
		}
		last = c.Family()
	}
	for c := range set.All() {
		c.writeMarkdown(&b)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// WriteFamilyMarkdown writes the reference of one family of a set by itself, as
// [WriteMarkdown] has it: a piece that a coding agent reads when it needs it. It
// reports whether there is the family.
func WriteFamilyMarkdown(w io.Writer, set *Set, family string) (bool, error) {
	var b bytes.Buffer
	for c := range set.All() {
		if c.Family() != family {
			continue
		}
		if b.Len() == 0 {
			fmt.Fprintf(&b, "# %s\n\nCommands of the family %[1]s. What holds for all commands is in [api-spec.md](../api-spec.md).\n", family)
		}
		c.writeMarkdown(&b)
	}
	if b.Len() == 0 {
		return false, nil
	}
	_, err := w.Write(b.Bytes())
	return true, err
}

// AnyCommandMayAnswer lists the codes that any command may answer with besides
// those it declares: "1001 (malformed envelope), …".
func AnyCommandMayAnswer() string { return anyCommand() }

// anyCommand lists the codes that the pipeline itself answers with.
func anyCommand() string {
	codes := []protocol.Code{
		protocol.MalformedEnvelope, protocol.InvalidParameter, protocol.UnknownCommand, protocol.UnsupportedVersion,
		protocol.PayloadTooLarge, protocol.IDReused, protocol.RequestExpired, protocol.NotAuthenticated, protocol.PermissionDenied,
		protocol.TimedOut, protocol.Busy, protocol.OutcomeUnknown, protocol.NoSpace, protocol.Internal, protocol.StoreUnavailable, protocol.ShuttingDown,
	}
	names := make([]string, len(codes))
	for i, c := range codes {
		names[i] = string(c) + " (" + c.String() + ")"
	}
	return strings.Join(names, ", ")
}

// anchor is the fragment that renderers give the heading of a command.
func anchor(name string) string { return strings.ReplaceAll(name, ".", "") }

func (c *Command) writeMarkdown(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n", c.Name, c.Summary)
	fmt.Fprintf(b, "Effect: %s. Permission: `%s`.", c.Effect, c.Action)
	if len(c.Aliases) > 0 {
		fmt.Fprintf(b, " Old name: `%s`.", strings.Join(c.Aliases, "`, `"))
	}
	if c.Async {
		b.WriteString(" Can run as a task.")
	}
	b.WriteByte('\n')
	writeFields(b, "Parameter", c.params)
	writeFields(b, "Result", c.results)
	if len(c.Errors) > 0 {
		b.WriteString("\nErrors:")
		for i, code := range c.Errors {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(b, " %s (%s)", string(code), code)
		}
		b.WriteString(".\n")
	}
	if c.Example != "" {
		b.WriteString("\n```json\n")
		if json.Indent(b, []byte(c.Example), "", "  ") != nil {
			b.WriteString(c.Example) // NewSet has checked it
		}
		b.WriteString("\n```\n")
	}
}

// writeFields writes a table of fields, for parameters with those that are
// required.
func writeFields(b *bytes.Buffer, heading string, fields []schema.Field) {
	if len(fields) == 0 {
		return
	}
	fmt.Fprintf(b, "\n| %s | Type | Meaning |\n|---|---|---|\n", heading)
	for _, f := range fields {
		typ, doc := f.Type, f.Doc
		if f.Limits != "" {
			typ += ", " + f.Limits
		}
		if f.Default != "" {
			typ += ", default " + f.Default
		}
		if f.Required && heading == "Parameter" {
			doc = strings.TrimSpace("*required* " + doc)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", f.Path, cell(typ), cell(doc))
	}
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
