package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/protocol"
)

// mostAtOnce is the number of approvals that the bridge decides in one command.
const mostAtOnce = 100

func approvalsBatchCommand() *cobra.Command {
	var s sessionFlags
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use:   "batch APPROVAL_ID approve|deny",
		Short: "Approve or deny a call and all that are equal to it",
		Long: `Approve or deny a call of a tool and all others that wait with the same tool,
arguments and roster, up to 100 at once. It shows them on standard error, and
asks before it decides unless --yes is given.`,
		Args:              exactArgs(2),
		ValidArgsFunction: completeArguments(&s.target, "approval.decide", "approval_id", "decision"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := isDecision(args[1]); err != nil {
				return err
			}
			return s.run(cmd, map[string]any{"decision": args[1]}, func(ctx context.Context, call caller, params map[string]any) (json.RawMessage, error) {
				optional(params, "reason", reason)
				equal, err := equalApprovals(ctx, call, args[0])
				if err != nil {
					return nil, err
				}
				if !yes && !confirmed(cmd, args[1], equal) {
					return nil, protocol.Errorf(protocol.Cancelled, "nothing was decided")
				}
				shown := make([]map[string]string, len(equal))
				for i, a := range equal {
					shown[i] = map[string]string{"approval_id": a.ID, "nonce": a.Nonce}
				}
				params["approvals"] = shown
				return call(ctx, "approval.batch", params)
			})
		},
	}
	s.addTarget(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why; the models read it when the calls are denied")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// equalApprovals are an approval and those that wait about the same call.
func equalApprovals(ctx context.Context, call caller, id string) ([]approvalSeen, error) {
	first, err := seenApproval(ctx, call, id)
	if err != nil {
		return nil, err
	}
	result, err := call(ctx, "approval.list", map[string]any{"state": "pending", "mine": true, "hash": first.Hash, "limit": mostAtOnce})
	if err != nil {
		return nil, err
	}
	var page struct {
		Approvals []approvalSeen `json:"approvals"`
	}
	if err := json.Unmarshal(result, &page); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(page.Approvals, func(a approvalSeen) bool { return a.ID == id }) {
		page.Approvals = append(page.Approvals[:min(len(page.Approvals), mostAtOnce-1)], first)
	}
	return page.Approvals, nil
}

// confirmed shows the calls that are about to be decided, and asks.
func confirmed(cmd *cobra.Command, decision string, list []approvalSeen) bool {
	for _, a := range list {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s  %s\n", cell(a.ID), a.line())
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s these %d calls? [y/N] ", decision, len(list))
	answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	return strings.EqualFold(strings.TrimSpace(answer), "y")
}
