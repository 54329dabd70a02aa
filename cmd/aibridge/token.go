package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
)

func tokenCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Revoke tokens of issuers, and list which are revoked"}
	cmd.AddCommand(tokenRevokeCommand(), tokenListCommand())
	return cmd
}

func tokenRevokeCommand() *cobra.Command {
	var s sessionFlags
	var principal, kind, before, issuer, reason string
	cmd := &cobra.Command{
		Use:   "revoke [TOKEN_ID]",
		Short: "Revoke a token, or all that a principal has by now, and disconnect who came in with them",
		Long: `Revoke a token of an issuer by its jti, or by what "sessions list" and the
audit trail show as its credential; or with --principal all tokens of a
principal that were issued by now. They stay revoked until they have expired.`,
		Example: `  aibridge token revoke 5f3c9d1e --reason "laptop was stolen"
  aibridge token revoke --principal staff.alice
  aibridge token revoke --principal lamp-1 --kind agent
  aibridge token revoke --principal staff.alice --issued-before 2026-03-01T12:00:00Z`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (principal != "") {
				return usageError{errors.New("give the id of a token, or --principal")}
			}
			params := map[string]any{}
			if len(args) == 1 {
				params["token_id"] = args[0]
			}
			optional(params, "principal_id", principal)
			optional(params, "kind", kind)
			optional(params, "issuer", issuer)
			optional(params, "reason", reason)
			if before != "" {
				at, err := time.Parse(time.RFC3339, before)
				if err != nil {
					return usageError{errors.New("--issued-before must be a time such as 2026-03-01T12:00:00Z")}
				}
				params["issued_before"] = at.UnixMilli()
			}
			return s.run(cmd, params, simply("token.revoke"))
		},
	}
	s.addFlags(cmd)
	cmd.Flags().StringVar(&principal, "principal", "", "whose tokens, by the id they have on this bridge")
	cmd.Flags().StringVar(&kind, "kind", "", "with --principal: operator, agent or skill; whoever has the id by default")
	cmd.Flags().StringVar(&before, "issued-before", "", "with --principal: only those issued then or earlier; now by default")
	cmd.Flags().StringVar(&issuer, "issuer", "", "only tokens of this issuer")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for those who look later")
	return cmd
}

func tokenListCommand() *cobra.Command {
	var s sessionFlags
	var principal string
	var most int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List which tokens are revoked, until they would have expired",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			params := map[string]any{"limit": most}
			optional(params, "principal_id", principal)
			return s.run(cmd, params, simply("token.list"))
		},
	}
	s.addFlags(cmd)
	cmd.Flags().StringVar(&principal, "principal", "", "only what is about all tokens of this principal")
	cmd.Flags().IntVar(&most, "limit", 100, "how many to show at most")
	s.addWatch(cmd, "token")
	return cmd
}
