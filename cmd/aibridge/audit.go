package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/config"
	"github.com/aibridge/aibridge/internal/storage"
	"github.com/aibridge/aibridge/protocol"
)

func auditCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "See who did what on a bridge, and check that the record is whole"}
	cmd.AddCommand(auditTailCommand(), auditQueryCommand(), auditVerifyCommand(), auditExportCommand())
	return cmd
}

// auditPage is the number of entries that are asked for at a time, the most there can be
// in an answer.
const auditPage = 1000

// tailPause is the time that a tail waits for more.
const tailPause = time.Second

// An auditFilter is the flags that choose entries.
type auditFilter struct {
	since, until                            string
	principal, event, code, resource, trace string
	bridge                                  string
	security                                bool
}

func (f *auditFilter) addFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.principal, "principal", "", "only what this principal did")
	fs.StringVar(&f.event, "event", "", "only this command or event; skill.* for all that begin so")
	fs.StringVar(&f.code, "code", "", "only with this result: ok, an error code, or failed for any")
	fs.StringVar(&f.resource, "resource", "", "only about this resource, type/id; skill/* for all that begin so")
	fs.StringVar(&f.trace, "trace", "", "only what belongs to this trace")
	fs.StringVar(&f.bridge, "of", "", "only what the bridge with this id has recorded, in a cluster")
	fs.BoolVar(&f.security, "security", false, "only what operators are told of as security events")
}

func (f *auditFilter) params(now time.Time) (map[string]any, error) {
	params := map[string]any{}
	optional(params, "principal", f.principal)
	optional(params, "event", f.event)
	optional(params, "code", f.code)
	optional(params, "resource", f.resource)
	optional(params, "trace_id", f.trace)
	optional(params, "bridge_id", f.bridge)
	if f.security {
		params["security"] = true
	}
	for name, text := range map[string]string{"since": f.since, "until": f.until} {
		if text == "" {
			continue
		}
		at, err := pointInTime(text, now)
		if err != nil {
			return nil, usageError{fmt.Errorf("--%s: %w", name, err)}
		}
		params[name] = at
	}
	return params, nil
}

// pointInTime reads a time, or a duration before now.
func pointInTime(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is neither a time (%s) nor how long ago (90m)", text, time.RFC3339)
}

// auditEntries is the result of audit.query.
type auditEntries struct {
	Entries []json.RawMessage `json:"entries"`
	Next    string            `json:"next_cursor"`
	Follow  string            `json:"follow_cursor"`
	Silent  []string          `json:"silent"`
}

// tellSilent names the bridges whose latest entries may be missing.
func tellSilent(cmd *cobra.Command, silent []string) {
	if len(silent) > 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "bridges that did not answer, whose latest entries may be missing: "+strings.Join(silent, ", "))
	}
}

func askAudit(ctx context.Context, c *client.Client, params map[string]any) (auditEntries, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return client.Call[auditEntries](ctx, c, "audit.query", params)
}

func auditQueryCommand() *cobra.Command {
	var target target
	var filter auditFilter
	var most int
	var shown format
	cmd := &cobra.Command{
		Use:   "query",
		Short: "Show entries of the audit trail, the latest first",
		Example: `  aibridge audit query --code failed --since 1h
  aibridge audit query --principal alice --event 'skill.*' --limit 0`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			params, err := filter.params(time.Now())
			if err != nil {
				return err
			}
			c, err := target.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			for count := 0; ; {
				params["limit"] = auditPage
				if most > 0 {
					params["limit"] = min(most-count, auditPage)
				}
				page, err := askAudit(cmd.Context(), c, params)
				if err != nil {
					return err
				}
				tellSilent(cmd, page.Silent)
				if err := writeEntries(cmd.OutOrStdout(), page.Entries, shown); err != nil {
					return err
				}
				count += len(page.Entries)
				if params["cursor"] = page.Next; page.Next == "" || most > 0 && count >= most {
					return nil
				}
			}
		},
	}
	target.addFlags(cmd.Flags())
	filter.addFlags(cmd)
	cmd.Flags().StringVar(&filter.since, "since", "", "not before this time, or this long ago")
	cmd.Flags().StringVar(&filter.until, "until", "", "before this time, or this long ago")
	cmd.Flags().IntVar(&most, "limit", 100, "how many to show at most, 0 for all")
	shown.addFlags(cmd)
	return cmd
}

func auditTailCommand() *cobra.Command {
	var target target
	var filter auditFilter
	var most int
	var follow bool
	var shown format
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show the latest entries of the audit trail, and with -f those to come",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			params, err := filter.params(time.Now())
			if err != nil {
				return err
			}
			c, err := target.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			params["limit"] = min(max(most, 1), auditPage)
			page, err := askAudit(cmd.Context(), c, params)
			if err != nil {
				return err
			}
			tellSilent(cmd, page.Silent)
			slices.Reverse(page.Entries) // the latest comes last here
			if err := writeEntries(cmd.OutOrStdout(), page.Entries, shown); err != nil || !follow {
				return err
			}
			if page.Follow == "" {
				return errors.New("the bridge is of an earlier version, whose trail this program cannot follow")
			}
			return followAudit(cmd, c, params, page.Follow, shown)
		},
	}
	target.addFlags(cmd.Flags())
	filter.addFlags(cmd)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until interrupted")
	cmd.Flags().IntVarP(&most, "lines", "n", 10, "how many entries to begin with")
	shown.addFlags(cmd)
	return cmd
}

// followAudit prints the entries after a place in the trail, as they are written, until
// the command is interrupted. While the store does not answer it waits: no entry is
// passed over.
func followAudit(cmd *cobra.Command, c *client.Client, params map[string]any, from string, shown format) error {
	ctx := cmd.Context()
	params["limit"] = auditPage
	for away := false; ; {
		params["cursor"] = from
		page, err := askAudit(ctx, c, params)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // whoever watches has seen enough
		case protocol.CodeOf(err) == protocol.StoreUnavailable:
			if !away {
				fmt.Fprintln(cmd.ErrOrStderr(), "waiting: "+err.Error())
			}
			away = true
		case err != nil:
			return err
		default:
			away = false
			if err := writeEntries(cmd.OutOrStdout(), page.Entries, shown); err != nil {
				return err
			}
			if from = page.Follow; page.Next != "" {
				continue
			}
		}
		select {
		case <-time.After(tailPause):
		case <-ctx.Done():
			return nil
		}
	}
}

// writeEntry shows one entry.
func writeEntry(w io.Writer, raw json.RawMessage, shown format) error {
	if shown.whole() {
		return shown.writeOne(w, raw)
	}
	var e auditEntry
	if err := json.Unmarshal(raw, &e); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, e.String())
	return err
}

// writeEntries shows entries, one a line.
func writeEntries(w io.Writer, entries []json.RawMessage, shown format) error {
	for _, raw := range entries {
		if err := writeEntry(w, raw, shown); err != nil {
			return err
		}
	}
	return nil
}

// An auditEntry holds the fields of an entry that people are shown.
type auditEntry struct {
	Seq       uint64            `json:"seq"`
	Bridge    string            `json:"bridge_id"`
	Time      time.Time         `json:"time"`
	Event     string            `json:"event"`
	Code      string            `json:"code"`
	Principal string            `json:"principal"`
	Kind      string            `json:"kind"`
	ActsFor   string            `json:"acts_for"`
	Resource  string            `json:"resource"`
	Params    json.RawMessage   `json:"params"`
	Reason    string            `json:"reason"`
	Door      string            `json:"door"`
	Address   string            `json:"address"`
	Async     bool              `json:"async"`
	Late      bool              `json:"late"`
	Details   map[string]string `json:"details"`
}

// number is the place of the entry in the trail: the sequence and, in a cluster, whose
// it is.
func (e auditEntry) number() string {
	if e.Bridge == "" {
		return strconv.FormatUint(e.Seq, 10)
	}
	return e.Bridge + ":" + strconv.FormatUint(e.Seq, 10)
}

// String is the entry in one line: when, what, its result, on what, who, from
// where, why.
func (e auditEntry) String() string {
	who := e.Principal
	if who == "" {
		who = e.Kind
	}
	if e.ActsFor != "" {
		who += " for " + e.ActsFor
	}
	parts := []string{fmt.Sprintf("%-7s %s  %-4s", e.number(), e.Time.Local().Format("2006-01-02 15:04:05.000"), e.Code), e.Event}
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	add(e.Resource)
	add("by " + who)
	add(strings.TrimSpace(e.Door + " " + e.Address))
	if e.Reason != "" {
		add("(" + e.Reason + ")")
	}
	add(string(e.Params))
	if len(e.Details) > 0 {
		details, _ := json.Marshal(e.Details) // a map of strings never fails
		add(string(details))
	}
	if e.Async {
		add("[task]")
	}
	if e.Late {
		add("[late]")
	}
	for i := range parts {
		parts[i] = cell(parts[i])
	}
	return strings.Join(parts, "  ")
}

// errAuditBroken is the error of a verification that found something.
var errAuditBroken = errors.New("the audit trail is not whole")

func auditVerifyCommand() *cobra.Command {
	var target target
	var heads []string
	var offline bool
	var export auditExport
	var shown format
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check every entry of the audit trail, and say what was changed or is missing",
		Long: `Check the hashes and seals of every entry of the audit trail. The result ends
with the head of the chain: note it elsewhere and give it to a later
verification with --head, which then also finds what somebody with the bridge's
own key has rewritten.

In a cluster the chains of all bridges are checked, also of those that are not
there any more: a bridge that has ended without a word has its chain closed by
another one. The heads of others are given as --head BRIDGE=SEQ:HASH.

With --offline the data folder of a stopped bridge is checked; AIBRIDGE_CONFIG
names its configuration if it has one.

With --file an export is checked, wherever it lies, and no bridge is asked:
--signed-by is the key that aibridge audit export has shown.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			verify := func() (json.RawMessage, error) { return verifyAudit(cmd.Context(), &target, heads, offline) }
			if export.file != "" || len(export.keys) > 0 {
				verify = func() (json.RawMessage, error) { return export.verify(heads) }
			}
			result, err := verify()
			if err != nil {
				return err
			}
			var report struct {
				OK bool `json:"ok"`
			}
			if err := json.Unmarshal(result, &report); err != nil {
				return err
			}
			if err := shown.write(output(cmd), result, writeTable); err != nil {
				return err
			}
			if !report.OK {
				return errAuditBroken
			}
			return nil
		},
	}
	target.addFlags(cmd.Flags())
	cmd.Flags().StringArrayVar(&heads, "head", nil, "head that an earlier verification ended with, SEQ:HASH or BRIDGE=SEQ:HASH; may be given several times")
	cmd.Flags().BoolVar(&offline, "offline", false, "check the data folder of a bridge that is not running")
	cmd.Flags().StringVar(&export.file, "file", "", "check this export")
	cmd.Flags().StringArrayVar(&export.keys, "signed-by", nil, "public key of the bridge that made the export; may be given several times")
	cmd.MarkFlagsMutuallyExclusive("offline", "file")
	shown.addFlags(cmd)
	return cmd
}

func verifyAudit(ctx context.Context, target *target, heads []string, offline bool) (json.RawMessage, error) {
	if offline {
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		config.AddStateFlags(fs)
		if err := fs.Set("data", target.folder()); err != nil {
			return nil, err
		}
		if target.root != "" {
			if err := fs.Set("root", target.root); err != nil {
				return nil, err
			}
		}
		config, err := app.LoadConfig(fs)
		if err != nil {
			return nil, err
		}
		report, err := storage.VerifyAudit(ctx, config, heads...)
		if err != nil {
			return nil, err
		}
		return json.Marshal(report)
	}
	c, err := target.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	params := map[string]any{}
	of := make(map[string]string)
	for _, text := range heads {
		if i := strings.LastIndexByte(text, '='); i >= 0 {
			of[text[:i]] = text[i+1:]
		} else {
			params["head"] = text
		}
	}
	if len(of) > 0 {
		params["heads"] = of
	}
	const patience = 10 * time.Minute // a trail may be long
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return client.Call[json.RawMessage](ctx, c, "audit.verify", params, client.WithTimeout(patience))
}
