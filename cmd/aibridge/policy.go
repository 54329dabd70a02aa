package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func policyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "policy", Short: "See, check and change who may do what"}
	cmd.AddCommand(policyListCommand(), policyShowCommand(), policyPutCommand(), policyRemoveCommand(),
		policyValidateCommand(), policyExplainCommand(), policyReportCommand())
	return cmd
}

func policyListCommand() *cobra.Command {
	var s sessionFlags
	var from string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the policies in force, those that come with the bridge first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			params := map[string]any{"limit": 1000}
			optional(params, "from", from)
			return s.run(cmd, params, simply("policy.list"))
		},
	}
	s.addTarget(cmd)
	cmd.Flags().StringVar(&from, "from", "", "shipped, file or stored: only policies from there")
	s.addWatch(cmd, "policy")
	return cmd
}

func policyShowCommand() *cobra.Command {
	var s sessionFlags
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Print the text of policies",
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.show = func(w io.Writer, result json.RawMessage) error {
				var found struct {
					Policy string `json:"policy"`
				}
				if err := json.Unmarshal(result, &found); err != nil {
					return err
				}
				_, err := fmt.Fprintln(w, legible(strings.TrimRight(found.Policy, "\n")))
				return err
			}
			return s.run(cmd, map[string]any{"name": args[0]}, simply("policy.get"))
		},
	}
	s.addTarget(cmd)
	return cmd
}

func policyPutCommand() *cobra.Command {
	var s sessionFlags
	var observe bool
	cmd := &cobra.Command{
		Use:   "put NAME FILE",
		Short: "Put policies in force or on trial, or replace those of the same name",
		Long: `Put the policies of a file, - for standard input, in force under a name. A
text that does not parse, or speaks of what there is not, changes nothing.
With --observe they decide nothing: aibridge policy report tells what they
would have decided otherwise, and aibridge policy promote puts them in force.`,
		Example: `  aibridge policy put doors doors.cedar
  aibridge policy put doors doors.cedar --observe`,
		Args: exactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readText(cmd, args[1])
			if err != nil {
				return err
			}
			params := map[string]any{"name": args[0], "policy": text}
			if observe {
				params["mode"] = "observe"
			}
			return s.run(cmd, params, simply("policy.put"))
		},
	}
	s.addTarget(cmd)
	cmd.Flags().BoolVar(&observe, "observe", false, "put them on trial")
	return cmd
}

func policyRemoveCommand() *cobra.Command {
	var s sessionFlags
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Take policies that were put out of force",
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd, map[string]any{"name": args[0]}, simply("policy.remove"))
		},
	}
	s.addTarget(cmd)
	return cmd
}

// errInvalidPolicy makes validate fail in scripts; the faults were shown.
var errInvalidPolicy = errors.New("the policies are not valid")

func policyValidateCommand() *cobra.Command {
	var s sessionFlags
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Say what is wrong with policies, without putting them in force",
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readText(cmd, args[0])
			if err != nil {
				return err
			}
			var found struct {
				Valid bool `json:"valid"`
			}
			err = s.run(cmd, map[string]any{"policy": text}, func(ctx context.Context, call caller, params map[string]any) (json.RawMessage, error) {
				result, err := call(ctx, "policy.validate", params)
				if err != nil {
					return nil, err
				}
				return result, json.Unmarshal(result, &found)
			})
			if err != nil {
				return err
			}
			if !found.Valid {
				return errInvalidPolicy
			}
			return nil
		},
	}
	s.addTarget(cmd)
	return cmd
}

func policyExplainCommand() *cobra.Command {
	var s sessionFlags
	var principal, resource, action, door, address, sender, method, cert string
	var roles, scopes []string
	var trial bool
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Say whether somebody may do something, and which policy decides",
		Long: `Say whether somebody may do something, and which policy decides. Without
--principal it is about yourself. Without --role a principal has the roles of
its newest API key, or else those of its kind.`,
		Example: `  aibridge policy explain --action skill:invoke --resource skill/front-door
  aibridge policy explain --principal agent:lamp-1 --action agent:unregister --resource agent/lamp-2
  aibridge policy explain --principal operator:anna --role observer --action topic:subscribe --resource 'topic/aibridge/cap/home/#'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if action == "" {
				return usageError{errors.New("--action is needed, such as skill:invoke")}
			}
			params := map[string]any{"action": action}
			if trial {
				params["trial"] = true
			}
			optional(params, "door", door)
			optional(params, "address", address)
			optional(params, "sender_id", sender)
			if principal != "" {
				who := whoIs(principal)
				optional(who, "space_id", s.space)
				optional(who, "method", method)
				optional(who, "cert_sn", cert)
				if len(roles) > 0 {
					who["roles"] = roles
				}
				if len(scopes) > 0 {
					who["scopes"] = scopes
				}
				params["principal"] = who
			} else if s.space+method+cert != "" || len(roles)+len(scopes) > 0 {
				return usageError{errors.New("--space, --role, --scope, --method and --cert-sn say something about --principal, which is not given")}
			}
			if resource != "" {
				family, id, _ := strings.Cut(resource, "/")
				on := map[string]any{"type": family}
				optional(on, "id", id)
				params["resource"] = on
			}
			s.show, s.space = writeExplanation, ""
			return s.run(cmd, params, simply("policy.explain"))
		},
	}
	s.addTarget(cmd)
	fs := cmd.Flags()
	fs.StringVar(&principal, "principal", "", "who, such as lamp-1, agent:lamp-1, operator:anna or skill:lighting; yourself by default")
	fs.StringVar(&s.space, "space", "", "space of the principal; your own by default")
	fs.StringSliceVar(&roles, "role", nil, "role of the principal")
	fs.StringSliceVar(&scopes, "scope", nil, "action that the principal's credential is limited to")
	fs.StringVar(&method, "method", "", "how the principal authenticated: apikey, jwt, certificate or anonymous")
	fs.StringVar(&cert, "cert-sn", "", "serial of the certificate whose key the principal holds")
	fs.StringVar(&action, "action", "", "what, such as skill:invoke")
	fs.StringVar(&resource, "resource", "", "on what, type/id, such as skill/front-door")
	fs.BoolVar(&trial, "trial", false, "as if the policies on trial were in force")
	fs.StringVar(&door, "door", "", "by which door: mqtt, http or ws")
	fs.StringVar(&address, "address", "", "from which IP address")
	fs.StringVar(&sender, "sender-id", "", "speaking for whom; itself by default")
	return cmd
}

// whoIs reads a principal, kind:id or id.
func whoIs(text string) map[string]any {
	kind, id, ok := strings.Cut(text, ":")
	if !ok {
		return map[string]any{"id": text}
	}
	return map[string]any{"kind": kind, "id": id}
}

// writeExplanation shows a decision for people: the answer first, then the
// policies it comes from.
func writeExplanation(w io.Writer, result json.RawMessage) error {
	var x struct {
		Decision, Reason, Principal, Action, Resource string
		Policies                                      []struct {
			ID, Effect, From, Why, Text string
			Line                        int
		}
		Failed []struct{ ID, Error string }
	}
	if err := json.Unmarshal(result, &x); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", x.Decision, x.Reason)
	fmt.Fprintf(&b, "%s, %s, %s\n", x.Principal, x.Action, x.Resource)
	for _, p := range x.Policies {
		fmt.Fprintf(&b, "\n%s by %s (%s, line %d)\n", p.Effect, p.ID, p.From, p.Line)
		if p.Why != "" {
			fmt.Fprintf(&b, "  # %s\n", p.Why)
		}
		for line := range strings.Lines(p.Text) {
			fmt.Fprintf(&b, "  %s\n", strings.TrimRight(line, "\n"))
		}
	}
	for _, f := range x.Failed {
		fmt.Fprintf(&b, "\n%s failed: %s\n", f.ID, f.Error)
	}
	_, err := io.WriteString(w, legible(b.String()))
	return err
}

// maxText is the longest text of policies that a bridge takes, in bytes.
const maxText = 4 * 65536

// readText reads a file, - being standard input.
func readText(cmd *cobra.Command, path string) (string, error) {
	in := cmd.InOrStdin()
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxText+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxText {
		return "", fmt.Errorf("%s is longer than a bridge takes", path)
	}
	return string(text), nil
}
