package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

func approvalsCommand() *cobra.Command {
	cmd := approvalsListCommand()
	cmd.Aliases = []string{"approval"}
	cmd.Use, cmd.Short = "approvals", "See and decide what models want to do and somebody must agree to"
	cmd.Long = `Show the calls of tools that wait for somebody to agree, decide about them, and
see what became of others. Without a verb, list those that wait.`
	cmd.AddCommand(approvalsListCommand(), approvalsShowCommand(), approvalsDecideCommand(), approvalsWatchCommand(),
		approvalsVerbCommand("approve"), approvalsVerbCommand("deny"), approvalsEditCommand(), approvalsBatchCommand())
	return cmd
}

func approvalsListCommand() *cobra.Command {
	var s sessionFlags
	var state string
	var all bool
	var most int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the calls that wait, the latest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			params := map[string]any{"limit": most}
			if !all {
				params["state"] = state
			}
			s.show = writeApprovals
			return s.run(cmd, params, simply("approval.list"))
		},
	}
	s.addTarget(cmd)
	cmd.Flags().StringVar(&state, "state", "pending", "pending, approved, used, denied, expired or withdrawn: only those in this state")
	cmd.Flags().BoolVar(&all, "all", false, "those in any state")
	cmd.Flags().IntVar(&most, "limit", 100, "how many to show at most, up to 1000")
	s.addWatch(cmd, "approval")
	return cmd
}

func approvalsShowCommand() *cobra.Command {
	var s sessionFlags
	cmd := &cobra.Command{
		Use:               "show APPROVAL_ID",
		Short:             "Show all about a call: tool, arguments, who it is for and whom it reaches",
		Args:              exactArgs(1),
		ValidArgsFunction: completeArguments(&s.target, "approval.get", "approval_id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd, map[string]any{"approval_id": args[0]}, simply("approval.get"))
		},
	}
	s.addTarget(cmd)
	return cmd
}

func approvalsDecideCommand() *cobra.Command {
	cmd := decisionCommand("decide APPROVAL_ID approve|deny", "Approve or deny a call", 2, func(args []string) string { return args[1] })
	cmd.Long = `Approve or deny a call of a tool. It shows what is decided, on standard error.
With --nonce, from list or show, the decision holds for what was seen there. A call
that somebody has changed is approved with it alone.`
	return cmd
}

// approvalsVerbCommand is decide with the decision as its name.
func approvalsVerbCommand(decision string) *cobra.Command {
	return decisionCommand(decision+" APPROVAL_ID", "The same as decide APPROVAL_ID "+decision, 1, func([]string) string { return decision })
}

// decisionCommand decides about the approval that its first argument names.
func decisionCommand(use, short string, arguments int, decisionOf func(args []string) string) *cobra.Command {
	var s sessionFlags
	var reason, nonce string
	cmd := &cobra.Command{
		Use:               use,
		Short:             short,
		Args:              exactArgs(arguments),
		ValidArgsFunction: completeArguments(&s.target, "approval.decide", []string{"approval_id", "decision"}[:arguments]...),
		RunE: func(cmd *cobra.Command, args []string) error {
			decision := decisionOf(args)
			if err := isDecision(decision); err != nil {
				return err
			}
			return s.run(cmd, map[string]any{"approval_id": args[0], "decision": decision}, func(ctx context.Context, call caller, params map[string]any) (json.RawMessage, error) {
				optional(params, "reason", reason)
				seen, err := seenApproval(ctx, call, args[0])
				if err != nil {
					return nil, err
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", decision, seen.line())
				if params["nonce"], err = seen.decidedBy(decision, nonce); err != nil {
					return nil, err
				}
				return call(ctx, "approval.decide", params)
			})
		},
	}
	s.addTarget(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why; the model reads it when the call is denied")
	cmd.Flags().StringVar(&nonce, "nonce", "", "of the call as it was seen")
	return cmd
}

func isDecision(word string) error {
	if word != "approve" && word != "deny" {
		return usageError{fmt.Errorf("%q is neither approve nor deny", word)}
	}
	return nil
}

func seenApproval(ctx context.Context, call caller, id string) (approvalSeen, error) {
	var seen approvalSeen
	result, err := call(ctx, "approval.get", map[string]any{"approval_id": id})
	if err != nil {
		return seen, err
	}
	if err := json.Unmarshal(result, &seen); err != nil {
		return seen, err
	}
	if seen.Nonce == "" {
		return seen, protocol.Errorf(protocol.InvalidState, "the approval is %s already", seen.State).With("approval_id", id)
	}
	return seen, nil
}

func approvalsWatchCommand() *cobra.Command {
	var t target
	var shown format
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Show calls as they begin to wait, and what becomes of them, until interrupted",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := t.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			var mu sync.Mutex
			topic := c.Topics().Event("approval")
			if _, err := c.Subscribe(cmd.Context(), topic, func(_ context.Context, m client.Message) {
				mu.Lock()
				defer mu.Unlock()
				if err := writeApprovalEvent(cmd.OutOrStdout(), m.Payload, shown); err != nil {
					fmt.Fprintln(cmd.ErrOrStderr(), "aibridge:", err)
				}
			}); err != nil {
				return fmt.Errorf("subscribe %s: %w", topic, err)
			}
			<-cmd.Context().Done()
			return nil
		},
	}
	t.addFlags(cmd.Flags())
	shown.addFlags(cmd)
	return cmd
}

// approvalSeen holds the fields of an approval by which people decide.
type approvalSeen struct {
	ID        string          `json:"approval_id"`
	State     string          `json:"state"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Roster    []string        `json:"roster"`
	Requester string          `json:"requester"`
	Why       string          `json:"why"`
	Reason    string          `json:"reason"`
	DecidedBy string          `json:"decided_by"`
	Nonce     string          `json:"nonce"`
	Expires   int64           `json:"expires_at"`
	Hash      string          `json:"hash"`
	Needs     int             `json:"needs"`
	Votes     []struct {
		By string `json:"by"`
	} `json:"votes"`
	EditedBy string `json:"edited_by"`
}

// decidedBy is the nonce of a decision: the given one, or that of the call as it is now.
// A changed call cannot be approved without a given one, as it may have been changed since the user
// saw it.
func (a *approvalSeen) decidedBy(decision, given string) (nonce string, err error) {
	switch {
	case given != "":
		return given, nil
	case decision == "approve" && a.EditedBy != "":
		return "", usageError{fmt.Errorf("%s has changed the call; if this is what you agree to, add --nonce %s", cell(a.EditedBy), a.Nonce)}
	}
	return a.Nonce, nil
}

// line is an approval in one line.
func (a *approvalSeen) line() string {
	text := fmt.Sprintf("%s %s for %s", a.Tool, a.Arguments, a.Requester)
	if len(a.Roster) > 0 {
		text += fmt.Sprintf(", reaching %v", a.Roster)
	}
	if a.EditedBy != "" {
		text += ", changed by " + a.EditedBy
	}
	return cell(text)
}

// waits is the reason and the deadline of a waiting call, with the votes so far.
func (a *approvalSeen) waits() string {
	text := fmt.Sprintf("because %s; until %s", a.Why, deadline(time.UnixMilli(a.Expires), time.Now()))
	if a.Needs > 1 {
		text += fmt.Sprintf("; %d of %d have agreed", len(a.Votes), a.Needs)
	}
	for i, vote := range a.Votes {
		text += [...]string{": ", ", "}[min(i, 1)] + vote.By
	}
	return cell(text)
}

// deadline is a time in words: with the day unless it is today.
func deadline(at, now time.Time) string {
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format("2006-01-02 15:04")
}

// writeApprovals lists approvals for people; --json has the rest.
func writeApprovals(w io.Writer, result json.RawMessage) error {
	var page struct {
		Approvals []approvalSeen `json:"approvals"`
		Total     int            `json:"total"`
	}
	if err := json.Unmarshal(result, &page); err != nil {
		return errors.Join(err, writeJSON(w, result))
	}
	if page.Total == 0 {
		_, err := fmt.Fprintln(w, "none")
		return err
	}
	for _, a := range page.Approvals {
		fmt.Fprintf(w, "%s  %s  %s\n", cell(a.ID), cell(a.State), a.line())
		switch {
		case a.State == "pending":
			fmt.Fprintf(w, "  %s\n", a.waits())
		case a.DecidedBy != "":
			fmt.Fprintf(w, "  by %s %s\n", cell(a.DecidedBy), cell(a.Reason))
		case a.Reason != "":
			fmt.Fprintf(w, "  %s\n", cell(a.Reason))
		}
	}
	return nil
}

func writeApprovalEvent(w io.Writer, payload []byte, shown format) error {
	event, err := protocol.DecodeEvent(payload, protocol.Limits{})
	if err != nil {
		return err
	}
	if shown.whole() {
		return shown.writeOne(w, event.Append(nil))
	}
	var a approvalSeen
	if err := json.Unmarshal(event.Data, &a); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s  %s  %s  %s\n", time.Now().Format(time.TimeOnly), cell(event.Name), cell(a.ID), a.line())
	return err
}
