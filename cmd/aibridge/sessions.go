package main

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/client"
)

func sessionsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "sessions", Aliases: []string{"session"}, Short: "See and end the MQTT sessions of a bridge"}
	cmd.AddCommand(sessionsListCommand(), sessionsShowCommand(), sessionsKickCommand())
	return cmd
}

func sessionsListCommand() *cobra.Command {
	var s sessionFlags
	var state, principal string
	var most int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the sessions of a space",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			params := map[string]any{}
			optional(params, "state", state)
			optional(params, "principal", principal)
			return s.run(cmd, params, func(ctx context.Context, call caller, params map[string]any) (json.RawMessage, error) {
				return listSessions(ctx, call, params, most)
			})
		},
	}
	s.addFlags(cmd)
	cmd.Flags().StringVar(&state, "state", "", "connected or kept: only sessions with a client, or without")
	cmd.Flags().StringVar(&principal, "principal", "", "only sessions of this owner")
	cmd.Flags().IntVar(&most, "limit", 100, "how many to show at most, 0 for all")
	s.addWatch(cmd, "session")
	return cmd
}

func sessionsShowCommand() *cobra.Command {
	var s sessionFlags
	cmd := &cobra.Command{
		Use:               "show CLIENT_ID",
		Short:             "Show a session: its client, subscriptions and what waits for it",
		Args:              exactArgs(1),
		ValidArgsFunction: completeArguments(&s.target, "session.get", "client_id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd, map[string]any{"client_id": args[0]}, simply("session.get"))
		},
	}
	s.addFlags(cmd)
	return cmd
}

func sessionsKickCommand() *cobra.Command {
	var s sessionFlags
	var forget bool
	cmd := &cobra.Command{
		Use:               "kick CLIENT_ID",
		Short:             "Disconnect a client, and end its session if asked to",
		Args:              exactArgs(1),
		ValidArgsFunction: completeArguments(&s.target, "session.kick", "client_id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd, map[string]any{"client_id": args[0], "forget": forget}, simply("session.kick"))
		},
	}
	s.addFlags(cmd)
	cmd.Flags().BoolVar(&forget, "forget", false, "end the session too: its subscriptions and what waits for it are gone")
	return cmd
}

// sessionFlags are the flags that all of these commands have.
type sessionFlags struct {
	target target
	space  string
	shown  format
	watch  bool                                   // of a command that lists
	family string                                 // of events about the listed things
	show   func(io.Writer, json.RawMessage) error // how the result is shown to people; as a table by default
}

func (s *sessionFlags) addFlags(cmd *cobra.Command) {
	s.addTarget(cmd)
	cmd.Flags().StringVar(&s.space, "space", "", "space to look at; your own by default")
}

// addTarget adds the flags without those of a space.
func (s *sessionFlags) addTarget(cmd *cobra.Command) {
	s.target.addFlags(cmd.Flags())
	s.shown.addFlags(cmd)
}

// addWatch adds the flag --watch to a command that lists. Events of a family
// announce changes of the listed things.
func (s *sessionFlags) addWatch(cmd *cobra.Command, family string) {
	s.family = family
	addWatch(cmd, &s.watch)
}

// table is the form of a result for people.
func (s *sessionFlags) table() func(io.Writer, json.RawMessage) error {
	if s.show != nil {
		return s.show
	}
	return writeTable
}

// callTimeout bounds the wait for the answer to a command.
const callTimeout = 30 * time.Second

// A caller runs a command on the bridge.
type caller func(ctx context.Context, command string, params map[string]any) (json.RawMessage, error)

// run connects, asks, and shows the answer.
func (s *sessionFlags) run(cmd *cobra.Command, params map[string]any, ask func(context.Context, caller, map[string]any) (json.RawMessage, error)) error {
	optional(params, "space_id", s.space)
	if overHTTP(s.target.url) && !s.watch {
		return s.runOverHTTP(cmd, params, ask)
	}
	c, err := s.target.dial(cmd.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	call := func(ctx context.Context, command string, params map[string]any) (json.RawMessage, error) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		return client.Call[json.RawMessage](ctx, c, command, params)
	}
	if s.watch {
		return watchList(cmd, c, s.shown, s.family, s.table(), func(ctx context.Context) (json.RawMessage, error) {
			return ask(ctx, call, maps.Clone(params))
		})
	}
	result, err := ask(cmd.Context(), call, params)
	if err != nil {
		return err
	}
	return s.shown.write(output(cmd), result, s.table())
}

// runOverHTTP is run over the door for HTTP that --url names: it answers also while the
// bridge lets no client of MQTT in.
func (s *sessionFlags) runOverHTTP(cmd *cobra.Command, params map[string]any, ask func(context.Context, caller, map[string]any) (json.RawMessage, error)) error {
	door, err := s.target.httpDoor(cmd.Context())
	if err != nil {
		return err
	}
	defer door.close()
	result, err := ask(cmd.Context(), func(ctx context.Context, command string, params map[string]any) (json.RawMessage, error) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		return door.call(ctx, command, params)
	}, params)
	if err != nil {
		return err
	}
	return s.shown.write(output(cmd), result, s.table())
}

// optional sets a parameter unless it is empty.
func optional(params map[string]any, name, value string) {
	if value != "" {
		params[name] = value
	}
}

// simply asks with one call.
func simply(command string) func(context.Context, caller, map[string]any) (json.RawMessage, error) {
	return func(ctx context.Context, call caller, params map[string]any) (json.RawMessage, error) {
		return call(ctx, command, params)
	}
}

// sessionPage is the number of sessions that are asked for at a time, the most there can
// be in an answer.
const sessionPage = 1000

// sessionList is the result of session.list.
type sessionList struct {
	Sessions   []json.RawMessage `json:"sessions"`
	Total      int               `json:"total"`
	NextCursor string            `json:"next_cursor,omitempty"`
}

// listSessions asks for page after page and makes one answer of them.
func listSessions(ctx context.Context, call caller, params map[string]any, most int) (json.RawMessage, error) {
	all := sessionList{Sessions: []json.RawMessage{}}
	for {
		params["limit"] = sessionPage
		if most > 0 {
			params["limit"] = min(most-len(all.Sessions), sessionPage)
		}
		result, err := call(ctx, "session.list", params)
		if err != nil {
			return nil, err
		}
		var page sessionList
		if err := json.Unmarshal(result, &page); err != nil {
			return nil, err
		}
		all.Sessions = append(all.Sessions, page.Sessions...)
		all.Total, all.NextCursor = page.Total, page.NextCursor
		if page.NextCursor == "" || most > 0 && len(all.Sessions) >= most {
			return json.Marshal(all)
		}
		params["cursor"] = page.NextCursor
	}
}
