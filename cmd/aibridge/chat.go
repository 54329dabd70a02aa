package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

func chatCommand() *cobra.Command {
	var (
		target  target
		c       conversation
		tools   []string
		system  string
		model   string
		timeout time.Duration
		wait    time.Duration
	)
	cmd := &cobra.Command{
		Use:   "chat [MESSAGE…]",
		Short: "Talk with a model that may use tools",
		Long: `Talk with a model of the bridge, line by line until /quit or the end of the
input, or say one message and show the answer. /help lists what is answered
without a model; /SKILL.CAPABILITY {json} runs a tool yourself. What a model
does with tools is shown on standard error.`,
		Example: `  aibridge chat --tools 'thermostat.*'
  aibridge chat --tools '*' Is it too warm in the bedroom?
  aibridge chat '/thermostat.read {}'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 || timeout > protocol.MaxTimeout {
				return usageError{fmt.Errorf("--timeout %s is not within 1ms and %s", timeout, protocol.MaxTimeout)}
			}
			bridge, err := target.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer bridge.Close()
			c.client, c.timeout, c.out, c.notes = bridge, timeout, cmd.OutOrStdout(), cmd.ErrOrStderr()
			c.settings = map[string]any{}
			optional(c.settings, "model", model)
			optional(c.settings, "system", system)
			if cmd.Flags().Changed("approval-wait") {
				c.patience = map[string]any{"approval_wait_ms": wait.Milliseconds()}
			}
			if len(tools) > 0 {
				c.settings["tools"] = tools
			}
			if len(args) > 0 {
				_, err := c.say(cmd.Context(), strings.Join(args, " "))
				return err
			}
			return c.read(cmd.Context(), cmd.InOrStdin())
		},
	}
	target.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&c.session, "session", "", "conversation to go on with; a new one by default")
	cmd.Flags().StringSliceVar(&tools, "tools", nil, "patterns of tools that the model may use, such as 'thermostat.*'")
	cmd.Flags().StringVar(&model, "model", "", "model that answers; the default one otherwise")
	cmd.Flags().StringVar(&system, "system", "", "what the model is told before everything else")
	cmd.Flags().DurationVar(&wait, "approval-wait", 0, "how long to wait for somebody to agree to a call before the answer comes as a task, up to 10m; the bridge's setting by default")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long an answer may take, approvals included")
	return cmd
}

// A conversation is one with a model, on a terminal or over pipes.
type conversation struct {
	client   *client.Client
	session  string
	settings map[string]any // of the next message; they hold from then on
	patience map[string]any // of every message
	timeout  time.Duration
	out      io.Writer // the model's text
	notes    io.Writer // its actions

	mu      sync.Mutex
	written string // of the answer, as it came
	waits   string // the task whose call needs an approval, once known
}

// chatResult is the shown part of the result of llm.chat.
type chatResult struct {
	Session string `json:"session_id"`
	Result  string `json:"result"`
	Ended   bool   `json:"ended"`
	Waiting *struct {
		Task string `json:"task_id"`
		Tool string `json:"tool"`
	} `json:"waiting"`
	Tools *struct {
		Stop    string   `json:"stop"`
		Detail  string   `json:"detail"`
		Notices []string `json:"notices"` // such as that no tool fits a pattern
	} `json:"tools"`
}

// maxLine bounds one line, in bytes.
const maxLine = 1 << 20

// read returns the input, line by line.
func (c *conversation) read(ctx context.Context, in io.Reader) error {
	prompt := ""
	if terminal(in) {
		prompt = "> "
		fmt.Fprintln(c.notes, "/help lists what is answered without a model, /quit ends.")
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for {
		fmt.Fprint(c.notes, prompt)
		if !lines.Scan() {
			return lines.Err()
		}
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		ended, err := c.say(ctx, line)
		var coded *protocol.Error
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the conversation was ended
		case errors.As(err, &coded):
			fmt.Fprintln(c.notes, "aibridge:", err)
			printDetails(c.notes, err)
		case err != nil:
			return err
		case ended:
			return nil
		}
	}
}

// terminal reports whether a reader or writer is a terminal.
func terminal(end any) bool {
	file, ok := end.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// say sends one message and shows the answer as it comes.
func (c *conversation) say(ctx context.Context, message string) (ended bool, err error) {
	params := map[string]any{"message": message, "stream": true}
	maps.Copy(params, c.patience)
	maps.Copy(params, c.settings)
	optional(params, "session_id", c.session)
	c.written = ""
	ctx, cancel := context.WithTimeout(ctx, c.timeout+2*time.Second)
	defer cancel()
	r, err := client.Call[chatResult](ctx, c.client, "llm.chat", params, client.WithTimeout(c.timeout), client.OnEvent(c.heard))
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if c.written != "" {
			fmt.Fprintln(c.out)
		}
		return false, err
	}
	c.session, c.settings = r.Session, nil
	if w := r.Waiting; w != nil {
		c.noteWaiting(w.Tool, w.Task)
		return false, nil
	}
	switch {
	case c.written == "":
		fmt.Fprintln(c.out, legible(r.Result))
	case !strings.HasSuffix(c.written, r.Result): // events may be lost, the answer is not
		fmt.Fprintln(c.out, "\n"+legible(r.Result))
	default:
		fmt.Fprintln(c.out)
	}
	c.noteTools(&r)
	return r.Ended, nil
}

// noteTools shows the notices about the tools, and the limit that ended the calls.
func (c *conversation) noteTools(r *chatResult) {
	if r.Tools == nil {
		return
	}
	for _, notice := range r.Tools.Notices {
		fmt.Fprintf(c.notes, "[tools] %s\n", inRow(cell(notice)))
	}
	if r.Tools.Stop != "" {
		fmt.Fprintf(c.notes, "[ended by the limit %s] %s\n", cell(r.Tools.Stop), cell(r.Tools.Detail))
	}
}

// heard shows an event that comes while the model answers.
func (c *conversation) heard(e *protocol.Event) {
	var d struct {
		Type   string          `json:"type"` // of llm.delta
		Text   string          `json:"text"` // and of llm.tool_result
		Name   string          `json:"name"`
		Args   json.RawMessage `json:"args"`
		Raw    string          `json:"raw"`
		Status string          `json:"status"`
		Task   string          `json:"task_id"` // of task.waiting
		Tool   string          `json:"tool"`
	}
	if json.Unmarshal(e.Data, &d) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e.Name {
	case "llm.delta":
		if d.Type == "text_delta" {
			fmt.Fprint(c.out, legible(d.Text))
			c.written += d.Text
		}
	case "llm.tool_call":
		arguments := d.Raw
		if arguments == "" {
			arguments = string(d.Args)
		}
		c.note("→ " + d.Name + " " + arguments)
	case "task.waiting":
		c.noteWaiting(d.Tool, d.Task)
	case "llm.tool_result":
		c.note("← " + d.Status + " " + d.Text)
	}
}

// noteWaiting shows, once, that a call needs an approval.
func (c *conversation) noteWaiting(tool, task string) {
	if c.waits == task {
		return
	}
	c.waits = task
	c.beginLine()
	fmt.Fprintf(c.notes, "[waiting for an operator to agree to %s; the answer comes here, and later by: aibridge task follow %s]\n", cell(tool), cell(task))
}

// note shows an action of a model, on a line of its own.
func (c *conversation) note(text string) {
	c.beginLine()
	fmt.Fprintln(c.notes, inRow(cell(text)))
}

// beginLine ends the line of the answer, if one is begun.
func (c *conversation) beginLine() {
	if c.written != "" && !strings.HasSuffix(c.written, "\n") {
		fmt.Fprintln(c.out)
		c.written += "\n"
	}
}
