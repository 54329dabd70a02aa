package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/protocol"
)

func keyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "key", Short: "Make, list and revoke API keys"}
	cmd.AddCommand(keyCreateCommand(), keyListCommand(), keyRevokeCommand())
	return cmd
}

func keyCreateCommand() *cobra.Command {
	var s sessionFlags
	var name, kind, out string
	var roles, scopes []string
	var unknown, s3 bool
	var expires time.Duration
	var llm protocol.Allowance
	cmd := &cobra.Command{
		Use:   "create PRINCIPAL",
		Short: "Make an API key for a device, a person or a program",
		Long: `Make an API key. It is shown once: the bridge keeps only what it needs to
recognise it. With --out it goes to a file that only its owner can read.`,
		Example: `  aibridge key create lamp-1
  aibridge key create anna --kind operator --role operator --expires 720h --out anna.key
  aibridge key create dashboard --kind operator --role observer --scope 'skill:discover' --scope 'agent:*'
  aibridge key create shop --kind operator --role operator --scope 'llm:*' --model fast --window day --cost 5 --per-minute 30`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			params := map[string]any{"principal_id": args[0]}
			optional(params, "name", name)
			optional(params, "kind", kind)
			if len(roles) > 0 {
				params["roles"] = roles
			}
			if len(scopes) > 0 {
				params["scopes"] = scopes
			}
			if unknown {
				params["allow_unknown"] = true
			}
			if s3 {
				params["s3"] = true
			}
			if !reflect.ValueOf(llm).IsZero() {
				params["llm"] = llm
			}
			switch {
			case expires < 0, expires > 0 && expires < time.Second:
				return usageError{errors.New("--expires must be a second or more")}
			case expires > 0:
				params["expires_in"] = int64(expires / time.Second)
			}
			if _, err := os.Lstat(out); out != "" && !errors.Is(err, fs.ErrNotExist) {
				return usageError{fmt.Errorf("%s is there already", out)}
			}
			return s.run(cmd, params, func(ctx context.Context, call caller, params map[string]any) (json.RawMessage, error) {
				result, err := call(ctx, "key.create", params)
				if err != nil {
					return nil, err
				}
				if out == "" {
					fmt.Fprintln(cmd.ErrOrStderr(), "Keep the key: it is not shown again.")
					return result, nil
				}
				return keyToFile(result, out)
			})
		},
	}
	s.addFlags(cmd)
	cmd.Flags().StringVar(&name, "name", "", "what the key is for, for people")
	cmd.Flags().StringVar(&kind, "kind", "", "operator, agent or skill; agent by default")
	cmd.Flags().StringSliceVar(&roles, "role", nil, "role of the principal; end_agent, skill or observer by default, by its kind")
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "action the key is limited to, such as skill:invoke or skill:*; without any it is not limited")
	cmd.Flags().BoolVar(&unknown, "allow-unknown", false, "take roles and scopes that neither the bridge nor a policy knows yet")
	cmd.Flags().BoolVar(&s3, "s3", false, "also make an access key for S3, which ends with the key")
	cmd.Flags().DurationVar(&expires, "expires", 0, "time until it expires, such as 720h; never by default")
	cmd.Flags().StringSliceVar(&llm.Models, "model", nil, "language model that the key may ask, by name or alias; without any it may ask all")
	cmd.Flags().StringVar(&llm.Window, "window", "", "hour, day or month, that --tokens, --cost and --requests are counted in; month by default")
	cmd.Flags().Int64Var(&llm.Tokens, "tokens", 0, "most tokens of language models in a window")
	cmd.Flags().Float64Var(&llm.Cost, "cost", 0, "most that language models may cost in a window")
	cmd.Flags().Int64Var(&llm.Requests, "requests", 0, "most requests to language models in a window")
	cmd.Flags().Int64Var(&llm.PerMinute, "per-minute", 0, "most requests to language models in a minute")
	cmd.Flags().StringVar(&out, "out", "", "file to write the key to, instead of showing it")
	return cmd
}

// keyToFile writes the key of an answer to a new file of its owner's, and
// takes it out of the answer.
func keyToFile(result json.RawMessage, path string) (json.RawMessage, error) {
	answer, ok := parseOrdered(result).(*orderedObject)
	if !ok {
		return nil, errors.New("the bridge answered with no object")
	}
	key, _ := answer.values["key"].(string)
	if key == "" {
		return nil, errors.New("the bridge answered without a key")
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = file.WriteString(key + "\n")
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return answer.without("key")
}

func keyListCommand() *cobra.Command {
	var s sessionFlags
	var principal, state string
	var most int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the API keys of a space, without their secrets",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			params := map[string]any{"limit": most}
			optional(params, "principal_id", principal)
			optional(params, "state", state)
			return s.run(cmd, params, simply("key.list"))
		},
	}
	s.addFlags(cmd)
	cmd.Flags().StringVar(&principal, "principal", "", "only keys of this principal")
	cmd.Flags().StringVar(&state, "state", "", "live, expired or revoked: only keys in this state")
	cmd.Flags().IntVar(&most, "limit", 100, "how many to show at most")
	s.addWatch(cmd, "key")
	return cmd
}

func keyRevokeCommand() *cobra.Command {
	var s sessionFlags
	var reason string
	cmd := &cobra.Command{
		Use:   "revoke KEY_ID",
		Short: "Revoke an API key, and disconnect who came in with it",
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			params := map[string]any{"key_id": args[0]}
			optional(params, "reason", reason)
			return s.run(cmd, params, simply("key.revoke"))
		},
	}
	s.addFlags(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for those who look later")
	return cmd
}
