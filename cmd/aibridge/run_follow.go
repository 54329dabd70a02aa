package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

// A runFollower has a run go on and shows how.
type runFollower struct {
	target      target
	shown       format
	detach      bool
	interactive bool
}

func (f *runFollower) addFlags(cmd *cobra.Command) {
	f.target.addFlags(cmd.Flags())
	f.shown.addFlags(cmd)
	cmd.Flags().BoolVar(&f.detach, "detach", false, "do not wait: show the id of the run and end")
	cmd.Flags().BoolVarP(&f.interactive, "interactive", "i", false, "read answers to the run's questions from standard input")
}

// runState is the result of the commands of runs.
type runState struct {
	ID        string `json:"run_id"`
	Phase     string `json:"phase"`
	Code      string `json:"stop_reason"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
	Questions []struct {
		Text    string   `json:"question"`
		Options []string `json:"options"`
	} `json:"questions"`
	Waiting *struct {
		Approval string `json:"approval_id"`
		Tool     string `json:"tool"`
	} `json:"waiting"`
}

// changes reports whether a run goes on without its user: at once, or after the
// decision of another user.
func (s *runState) changes() bool { return s.Phase == "Running" || s.Phase == "WaitingApproval" }

// run sends one command and shows the run until it is at rest.
func (f *runFollower) run(cmd *cobra.Command, command string, params map[string]any) error {
	c, err := f.target.dial(cmd.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	return f.follow(cmd, c, command, params)
}

// follow is run over a connection.
func (f *runFollower) follow(cmd *cobra.Command, c *client.Client, command string, params map[string]any) error {
	ctx := cmd.Context()
	input := bufio.NewReader(cmd.InOrStdin())
	followed := ""
	for {
		raw, state, err := askRun(ctx, c, command, params)
		if err != nil {
			return err
		}
		if f.detach {
			return f.show(cmd, raw, state)
		}
		if followed == "" {
			followed = state.ID
			if !f.shown.whole() {
				fmt.Fprintf(cmd.ErrOrStderr(), "run %s\n", state.ID)
			}
			printer := &runPrinter{out: cmd.ErrOrStderr(), asJSON: f.shown.whole()}
			if _, err := c.Subscribe(ctx, c.Topics().TaskEvent(protocol.TaskID(state.ID)), printer.print); err != nil {
				return fmt.Errorf("follow the run: %w", err)
			}
			if !f.shown.whole() && state.Phase == "Running" {
				f.showNode(ctx, c, state.ID, printer)
			}
		}
		if raw, state, err = f.atRest(ctx, cmd.ErrOrStderr(), c, raw, state); err != nil {
			return err
		}
		if err := f.show(cmd, raw, state); err != nil {
			return err
		}
		if !f.interactive || state.Phase != "WaitingUser" {
			return runError(state)
		}
		text, err := readAnswer(cmd.ErrOrStderr(), input)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		command, params = "llm.run.continue", map[string]any{"run_id": state.ID, "input": text}
	}
}

// showNode shows where a run is that began before it was followed.
func (f *runFollower) showNode(ctx context.Context, c *client.Client, id string, p *runPrinter) {
	raw, _, err := askRun(ctx, c, "llm.run.status", map[string]any{"run_id": id})
	var at struct {
		Node string `json:"current_node_id"`
	}
	if err == nil && json.Unmarshal(raw, &at) == nil && at.Node != "" {
		p.node(at.Node, "")
	}
}

// runError makes of a run that failed an error with an exit code.
func runError(state runState) error {
	if state.Phase != "Failed" {
		return nil
	}
	return protocol.Errorf(protocol.InvalidState, "%s: %s", state.Code, state.Reason).With("run_id", state.ID)
}

func readAnswer(out io.Writer, in *bufio.Reader) (string, error) {
	fmt.Fprint(out, "> ")
	text, err := in.ReadString('\n')
	if text = strings.TrimRight(text, "\r\n"); text != "" {
		return text, nil
	}
	return text, err
}

func askRun(ctx context.Context, c *client.Client, command string, params map[string]any) (raw json.RawMessage, state runState, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if raw, err = client.Call[json.RawMessage](ctx, c, command, params, client.WithTimeout(time.Minute)); err == nil {
		err = json.Unmarshal(raw, &state)
	}
	return raw, state, err
}

// atRest waits until a run is at rest, and shows the approvals that it waits for.
func (f *runFollower) atRest(ctx context.Context, out io.Writer, c *client.Client, raw json.RawMessage, state runState) (json.RawMessage, runState, error) {
	var err error
	for told := ""; state.changes() && err == nil; {
		if w := state.Waiting; w != nil && w.Approval != told && !f.shown.whole() {
			fmt.Fprintf(out, "  … %s waits for an operator: aibridge approvals show %s\n", cell(w.Tool), w.Approval)
			told = w.Approval
		}
		raw, state, err = askRun(ctx, c, "llm.run.status", map[string]any{"run_id": state.ID, "wait_ms": 30_000})
	}
	return raw, state, err
}

// show shows where a run has come to.
func (f *runFollower) show(cmd *cobra.Command, raw json.RawMessage, state runState) error {
	out := cmd.OutOrStdout()
	if f.shown.whole() {
		return f.shown.write(out, raw, nil)
	}
	if f.detach {
		fmt.Fprintln(out, state.ID)
		return nil
	}
	if state.Message != "" {
		fmt.Fprintln(out, inLines(state.Message))
	}
	for _, q := range state.Questions {
		fmt.Fprintf(out, "? %s\n", inLines(q.Text))
		for _, o := range q.Options {
			fmt.Fprintf(out, "  - %s\n", inLines(o))
		}
	}
	fmt.Fprintln(out, strings.TrimSpace(state.Phase+" "+state.Code))
	if state.Phase == "WaitingUser" && !f.interactive {
		fmt.Fprintf(cmd.ErrOrStderr(), "answer with: aibridge run continue %s TEXT\n", state.ID)
	}
	return nil
}

// inLines is a text of a model that cannot steer the terminal.
func inLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = cell(lines[i])
	}
	return strings.Join(lines, "\n")
}

// A runPrinter shows the events of a run as they come.
type runPrinter struct {
	mu     sync.Mutex
	out    io.Writer
	asJSON bool
	said   string // message whose pieces were shown last
	at     string // node that was shown last
}

// runEvent is the data of an event of a run.
type runEvent struct {
	Message string  `json:"message_id"`
	Node    string  `json:"node_id"`
	Title   string  `json:"title"`
	Text    string  `json:"text"`
	Tool    string  `json:"tool"`
	About   string  `json:"about"`
	State   string  `json:"state"`
	Code    string  `json:"code"`
	Final   bool    `json:"final"`
	Took    float64 `json:"duration_ms"`
}

func (p *runPrinter) print(_ context.Context, m client.Message) {
	e, err := protocol.DecodeEvent(m.Payload, protocol.Limits{})
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asJSON {
		fmt.Fprintf(p.out, "%s %s\n", printable(e.Name), jsonLine(e.Data))
		return
	}
	var about runEvent
	if json.Unmarshal(e.Data, &about) != nil {
		return
	}
	if e.Name != "run.delta" && p.said != "" {
		fmt.Fprintln(p.out)
	}
	switch e.Name {
	case "run.node":
		p.put(about.Node, about.Title)
	case "run.delta":
		fmt.Fprint(p.out, inLines(about.Text))
		p.said = about.Message
		return
	case "run.message":
		if !about.Final && p.said != about.Message { // the final one is the result
			fmt.Fprintf(p.out, "  %s\n", inLines(about.Text))
		}
	case "run.tool":
		p.tool(&about)
	}
	p.said = ""
}

// node shows that a run is in a node.
func (p *runPrinter) node(id, title string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(id, title)
}

// put is node for callers that hold the lock. The last line is not shown again.
func (p *runPrinter) put(id, title string) {
	if id != p.at {
		fmt.Fprintln(p.out, strings.TrimSpace("● "+cell(id)+" "+cell(title)))
	}
	p.at = id
}

func (p *runPrinter) tool(e *runEvent) {
	switch e.State {
	case "ok":
		fmt.Fprintf(p.out, "  ✓ %s %s (%.0f ms)\n", cell(e.Tool), cell(e.About), e.Took)
	case "failed":
		fmt.Fprintf(p.out, "  ✗ %s %s: %s\n", cell(e.Tool), cell(e.About), cell(e.Code))
	}
}
