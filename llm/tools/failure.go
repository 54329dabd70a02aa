package tools

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

// A Class is the treatment of an error of a tool.
type Class uint8

// The classes.
const (
	FedBack Class = iota // returned to the model, which may try another call
	Passing              // transient: repeated after a pause, if that can do no harm, and then returned to the model
	Fatal                // ends the turn: no other call can succeed either
)

// ClassOf is the class of an error.
func ClassOf(err error) Class {
	code := protocol.CodeOf(err)
	switch code {
	case protocol.NotAuthenticated, protocol.CredentialInvalid, protocol.BudgetSpent, protocol.ShuttingDown:
		return Fatal
	}
	if code.Retry() != protocol.RetryNever {
		return Passing
	}
	return FedBack
}

// mayRepeat reports whether a failed call may be repeated: it had no effect, or
// repeating its effect does no harm.
func mayRepeat(t *Tool, err error) bool {
	if ClassOf(err) != Passing {
		return false
	}
	code := protocol.CodeOf(err)
	return t.Idempotent || t.Effect == commands.Read || code == protocol.Busy || code == protocol.RateLimited
}

// maxText is the default length of a result for a model, in bytes.
const maxText = 64 << 10

// finish fills in a result from the output of a tool.
func (e *Executor) finish(r *Result, out Output) {
	r.Status, r.Output = Success, out
	r.Text = e.bounded(out.text())
	if out.IsError {
		r.Status = Failed
		r.Err = protocol.Errorf(protocol.Internal, "the tool says that it failed")
		if !strings.HasPrefix(r.Text, "Error") {
			r.Text = "Error: " + r.Text
		}
	}
}

func (o *Output) text() string {
	switch {
	case o.Text != "":
		return o.Text
	case len(o.Brief) > 0:
		return string(o.Brief)
	case len(o.Content) > 0:
		return string(o.Content)
	case len(o.Segments) > 0:
		return fmt.Sprintf("(%d pieces of media)", len(o.Segments))
	}
	return "Done."
}

// bounded cuts a text to the length for a model.
func (e *Executor) bounded(text string) string {
	most := e.MaxText
	if most <= 0 {
		most = maxText
	}
	if len(text) <= most {
		return strings.ToValidUTF8(text, "�")
	}
	cut := text[:most]
	for !utf8.RuneStart(text[len(cut)]) {
		cut = cut[:len(cut)-1]
	}
	return fmt.Sprintf("%s\n[%d of %d bytes were left out]", strings.ToValidUTF8(cut, "�"), len(text)-len(cut), len(text))
}

// fail fills in the result of a failed call. A cancelled call is Skipped.
func (e *Executor) fail(turn context.Context, r *Result, err error) {
	shown := protocol.AsError(err)
	r.Status, r.Err, r.Fatal = Failed, shown, ClassOf(shown) == Fatal
	if turn.Err() != nil && (shown.Code == protocol.Cancelled || shown.Code == protocol.TimedOut) {
		r.Status = Skipped
	}
	r.Text = e.bounded(fmt.Sprintf("Error: %s (code %s)", strings.TrimSuffix(shown.Message, "."), string(shown.Code)))
	if len(r.Output.Content) > 0 {
		r.Text = e.bounded(r.Text + "\nBefore it failed: " + string(r.Output.Content))
	}
}

// notFound fills in the result of a call of an unknown tool.
func (t *turn) notFound(c *chat.ToolCall, r *Result) {
	r.Status, r.Warning = Failed, noteDefinition
	err := protocol.Errorf(protocol.NotFound, "tool %.100q not found", c.Name)
	r.Text = fmt.Sprintf("Error: Tool %q not found.", shorten(c.Name, 200))
	if near := t.box.Nearest(c.Name); len(near) > 0 {
		err = err.With("did_you_mean", near[0])
		for i := range near {
			near[i] = fmt.Sprintf("%q", t.box.Spelling(near[i]))
		}
		r.Text += " Did you mean " + strings.Join(near, ", ") + "?"
	}
	r.Err = err
}

// invalid fills in the result of a call with invalid arguments. Spelling is the tool's
// name for the model.
func (r *Result) invalid(t *Tool, spelling string, x *Execution, p *Parsed) {
	r.Status = Failed
	reason := p.Error()
	r.Err = protocol.InvalidParam("arguments", reason).With("tool", t.Name)
	if r.Warning != "" {
		reason += "; " + r.Warning
	}
	r.Warning = reason
	var b strings.Builder
	fmt.Fprintf(&b, "Error: Invalid arguments for the tool %q: %s.", spelling, reason)
	for _, hint := range p.meant(t.prepare().shape) {
		fmt.Fprintf(&b, " %s.", hint)
	}
	fmt.Fprintf(&b, "\nThe arguments were: %s\nThey must fit: %s", shorten(string(x.Raw), 2000), shorten(string(t.JSONSchema()), 8000))
	r.Text = strings.ToValidUTF8(b.String(), "�")
}

// shorten cuts a text for a message.
func shorten(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "…"
}
