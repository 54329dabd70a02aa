package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

func approvalsEditCommand() *cobra.Command {
	var s sessionFlags
	var reason string
	cmd := &cobra.Command{
		Use:   "edit APPROVAL_ID ARGUMENTS",
		Short: "Change the arguments of a call that waits",
		Long: `Change the arguments of a call that waits for approval. ARGUMENTS is a JSON object
with all of them. The call is then asked about anew: somebody else has to agree to
it, unless you are an administrator.`,
		Example:           `  aibridge approvals edit 01980a3e '{"celsius":180}' --reason '220 is too hot'`,
		Args:              exactArgs(2),
		ValidArgsFunction: completeArguments(&s.target, "approval.edit", "approval_id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !json.Valid([]byte(args[1])) {
				return usageError{fmt.Errorf("%q is no JSON", args[1])}
			}
			return s.run(cmd, map[string]any{"approval_id": args[0], "arguments": json.RawMessage(args[1])}, func(ctx context.Context, call caller, params map[string]any) (json.RawMessage, error) {
				optional(params, "reason", reason)
				seen, err := seenApproval(ctx, call, args[0])
				if err != nil {
					return nil, err
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "edit: %s\n", seen.line())
				params["nonce"] = seen.Nonce
				return call(ctx, "approval.edit", params)
			})
		},
	}
	s.addTarget(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why; the model reads it")
	return cmd
}
