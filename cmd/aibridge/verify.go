package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/config"
	"github.com/aibridge/aibridge/internal/verify"
)

// errPromiseBroken ends the program with 1 when a promise is broken, and
// errNotTried when one was not tried that had to be.
var (
	errPromiseBroken = errors.New("a promise is broken")
	errNotTried      = errors.New("not every promise could be tried")
)

func verifyCommand() *cobra.Command {
	var v verifyRun
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Try the bridge's promises on a copy of its state, with your own configuration",
		Long: `Try what the bridge promises – a request runs once, a revoked key opens nothing,
an approval is for the call that was shown, spaces are apart, a changed audit
trail is found – with your own configuration, policies and keys, on a copy of the
state. Devices and the model are made up; the real ones, and everything else
outside of this process, are never reached. The copy is removed afterwards.

The state is that of the data folder, whether a bridge runs on it or not, or of
--backup. Each promise has a control, which shows that what is refused would
otherwise work. A promise that cannot be tried is not kept: it says why, and
--all makes it an error.

The exit code is 1 if a promise is broken.`,
		Example: `  aibridge verify
  aibridge verify --config bridge.yaml --json
  aibridge verify --backup bridge.tar.gz --all`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return v.run(cmd) },
	}
	config.AddFlags(cmd.Flags())
	v.backup.target.addAddressFlag(cmd.Flags())
	v.backup.target.addCredentialFlags(cmd.Flags())
	v.shown.addFlags(cmd)
	cmd.Flags().StringVar(&v.archive, "backup", "", "a backup of the state, instead of the data folder")
	cmd.Flags().BoolVar(&v.all, "all", false, "fail if a promise cannot be tried")
	return cmd
}

// A verifyRun is one verification.
type verifyRun struct {
	backup  backupRun
	archive string
	all     bool
	shown   format
}

func (v *verifyRun) run(cmd *cobra.Command) error {
	keepPrivate()
	settings, err := app.LoadConfig(cmd.Flags())
	if err != nil {
		return usageError{err}
	}
	archive, err := v.copied(cmd)
	if err != nil {
		return fmt.Errorf("copy the state: %w", err)
	}
	defer archive.Close()
	o := verify.Options{Config: settings, Archive: archive, Version: version}
	if v.archive == "" {
		o.Original = settings.Data
	}
	results, err := verify.Run(cmd.Context(), o)
	if err != nil {
		return err
	}
	if err := v.show(cmd.OutOrStdout(), results); err != nil {
		return err
	}
	return v.verdict(results)
}

// copied is a backup of the state. One that is made for this is gone when it is
// closed.
func (v *verifyRun) copied(cmd *cobra.Command) (*os.File, error) {
	if v.archive != "" {
		return os.Open(v.archive)
	}
	v.backup.withoutContents = true
	v.backup.progress = newProgress(cmd.ErrOrStderr(), "copying", 0)
	defer v.backup.progress.end()
	archive, err := os.CreateTemp("", "aibridge-verify-*.tar.gz")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(archive.Name()) // where that cannot be done while it is open, it stays
	if _, err = v.backup.write(cmd, archive); err == nil {
		_, err = archive.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, archive.Close())
	}
	return archive, nil
}

func (v *verifyRun) show(w io.Writer, results []verify.Result) error {
	if v.shown.whole() {
		text, err := json.Marshal(map[string]any{"promises": results})
		if err != nil {
			return err
		}
		return v.shown.writeOne(w, text)
	}
	ink := inkOf(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	counts := map[verify.State]int{}
	for _, r := range results {
		counts[r.State]++
		fmt.Fprintf(table, "%s\t%s\t%s\n", r.Promise, ink.word(string(r.State)), cell(r.What))
		if r.Control != "" {
			fmt.Fprintf(table, "\t\tcontrol: %s\n", cell(r.Control))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d kept, %d broken, %d not tried\n", counts[verify.Kept], counts[verify.Broken], counts[verify.NotApplicable])
	return err
}

func (v *verifyRun) verdict(results []verify.Result) (err error) {
	for _, r := range results {
		switch {
		case r.State == verify.Broken:
			return errPromiseBroken
		case r.State == verify.NotApplicable && v.all:
			err = errNotTried
		}
	}
	return err
}
