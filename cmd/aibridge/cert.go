package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/pki"
)

func certCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cert",
		Short: "Ask for, issue, renew, revoke and look at certificates",
		Long: `Certificates say who somebody is and what they may do: a certificate for a
skill, with the role agent_route and some types of scenes, makes a route agent.
Keys are made where they are used and never leave the machine.`,
	}
	cmd.AddCommand(
		certRequestCommand(), certDecideCommand("approve", "Approve a pending request, as an officer of its authority"),
		certDecideCommand("reject", "Reject a pending request, as an officer of its authority"),
		certIssueCommand(), certRenewCommand(), certRevokeCommand(), certListCommand(), certShowCommand(), certExportCommand(),
		certTokenCommand(), certClaimCommand(),
	)
	return cmd
}

// certs are the flags that all of these commands have.
type certs struct {
	target target
	shown  format
}

func (c *certs) addFlags(cmd *cobra.Command) {
	c.target.addFlags(cmd.Flags())
	c.shown.addFlags(cmd)
}

// call runs one command on the bridge.
func (c *certs) call(ctx context.Context, command string, params map[string]any) (json.RawMessage, error) {
	bridge, err := c.target.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer bridge.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return client.Call[json.RawMessage](ctx, bridge, command, params)
}

// watch lists certificates again whenever that changes.
func (c *certs) watch(cmd *cobra.Command, params map[string]any) error {
	bridge, err := c.target.dial(cmd.Context())
	if err != nil {
		return err
	}
	defer bridge.Close()
	return watchList(cmd, bridge, c.shown, "cert", writeTable, func(ctx context.Context) (json.RawMessage, error) {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		return client.Call[json.RawMessage](ctx, bridge, "cert.list", params)
	})
}

// show runs one command and shows its result.
func (c *certs) show(cmd *cobra.Command, command string, params map[string]any) error {
	result, err := c.call(cmd.Context(), command, params)
	if err != nil {
		return err
	}
	return c.shown.write(output(cmd), result, writeTable)
}

func certDecideCommand(verb, short string) *cobra.Command {
	var c certs
	var reason string
	cmd := &cobra.Command{
		Use:   verb + " REQUEST_ID",
		Short: short,
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			params := map[string]any{"request_id": args[0]}
			optional(params, "reason", reason)
			return c.show(cmd, "cert."+verb, params)
		},
	}
	c.addFlags(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "for those who read it later")
	return cmd
}

func certRevokeCommand() *cobra.Command {
	var c certs
	var reason string
	var renewals bool
	cmd := &cobra.Command{
		Use:     "revoke SERIAL --reason REASON",
		Short:   "Take a certificate back: its sessions end at once, and nothing brings it back",
		Example: `  aibridge cert revoke 8a1b2c3d4e5f6a7b --reason "key compromise"`,
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return usageError{errors.New("--reason is needed: those who are cut off will ask")}
			}
			params := map[string]any{"serial": args[0], "reason": reason}
			if cmd.Flags().Changed("renewals") {
				params["renewals"] = renewals
			}
			return c.show(cmd, "cert.revoke", params)
		},
	}
	c.addFlags(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why; such as key compromise, superseded, cessation of operation")
	cmd.Flags().BoolVar(&renewals, "renewals", false, "also those that were renewed from it; by default if the reason is key compromise")
	return cmd
}

func certListCommand() *cobra.Command {
	var c certs
	var authority, status, skill, space string
	var requests, watch bool
	var days, limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List certificates, or with --requests who asked for some",
		Args:  exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			params := map[string]any{"limit": limit}
			optional(params, "authority", authority)
			optional(params, "status", status)
			optional(params, "skill_id", skill)
			optional(params, "space_id", space)
			if requests {
				params["of"] = "requests"
			}
			if days > 0 {
				params["expires_within_days"] = days
			}
			if watch {
				return c.watch(cmd, params)
			}
			return c.show(cmd, "cert.list", params)
		},
	}
	c.addFlags(cmd)
	cmd.Flags().StringVar(&authority, "authority", "", "only of this one: operator, appstore or enterprise")
	cmd.Flags().StringVar(&status, "status", "", "only valid, expired or revoked ones; of requests: pending, approved, rejected or issued")
	cmd.Flags().StringVar(&skill, "skill", "", "only for this skill")
	cmd.Flags().StringVar(&space, "space", "", "of this space; your own by default")
	cmd.Flags().BoolVar(&requests, "requests", false, "list requests instead")
	cmd.Flags().IntVar(&days, "expires-within", 0, "only those that end within so many days")
	cmd.Flags().IntVar(&limit, "limit", 100, "how many to show at most")
	addWatch(cmd, &watch)
	return cmd
}

func certShowCommand() *cobra.Command {
	var c certs
	cmd := &cobra.Command{
		Use:   "show FILE|SERIAL",
		Short: "Show what a certificate is good for: one in a file, or one the bridge knows",
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := protocol.ParseSerial(args[0]); err != nil {
				return showFile(cmd, args[0], c.shown)
			}
			if _, err := os.Stat(args[0]); err == nil {
				return showFile(cmd, args[0], c.shown)
			}
			result, err := c.call(cmd.Context(), "cert.get", map[string]any{"serial": args[0]})
			if err != nil {
				return err
			}
			if c.shown.whole() {
				return c.shown.write(output(cmd), result, nil)
			}
			var shown struct {
				Certificate json.RawMessage `json:"certificate"`
			}
			if err := json.Unmarshal(result, &shown); err != nil {
				return err
			}
			return writeTable(output(cmd), shown.Certificate)
		},
	}
	c.addFlags(cmd)
	return cmd
}

// showFile shows a certificate in a file, without a bridge.
func showFile(cmd *cobra.Command, path string, shown format) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	described, err := pki.Describe(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	result, err := json.Marshal(described)
	if err != nil {
		return err
	}
	return shown.write(output(cmd), result, writeTable)
}

func certExportCommand() *cobra.Command {
	var c certs
	var out string
	cmd := &cobra.Command{
		Use:   "export SERIAL",
		Short: "Write a certificate and its chain, without a key",
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			result, err := c.call(cmd.Context(), "cert.get", map[string]any{"serial": args[0]})
			if err != nil {
				return err
			}
			var got issuedCertificate
			if err := json.Unmarshal(result, &got); err != nil {
				return err
			}
			if out == "" {
				for _, part := range got.Chain {
					fmt.Fprint(cmd.OutOrStdout(), part)
				}
				return nil
			}
			if err := os.MkdirAll(out, 0o700); err != nil {
				return err
			}
			return got.write(out)
		},
	}
	c.addFlags(cmd)
	cmd.Flags().StringVar(&out, "out", "", "folder for cert.pem and ca.pem; standard output without one")
	return cmd
}
