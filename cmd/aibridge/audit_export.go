package main

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/security/audit"
)

func auditExportCommand() *cobra.Command {
	var target target
	cmd := &cobra.Command{
		Use:   "export FILE",
		Short: "Write the audit trails of all bridges to a file that can be verified by itself",
		Long: `Write the audit trails of all bridges to FILE ("-" for standard output), entry by
entry as lines of JSON, with what the bridge finds when it verifies them, and
sign all of it. Only an administrator may. The public key that is shown
verifies the file anywhere, without a bridge; note it where the file is not.`,
		Example: `  aibridge audit export trail.jsonl
  aibridge audit verify --file trail.jsonl --signed-by KEY`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			keepPrivate()
			var report audit.ExportReport
			write := func(w io.Writer) (err error) {
				report, err = exportAudit(cmd.Context(), &target, w)
				return err
			}
			var err error
			if args[0] == "-" {
				err = write(cmd.OutOrStdout())
			} else {
				err = writeWhole(args[0], write)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "saved %d entries of %d bridges, signed by %s\n", report.Entries, len(report.Chains), report.Key)
			if !report.OK {
				return errAuditBroken
			}
			return nil
		},
	}
	target.addFlags(cmd.Flags())
	return cmd
}

// exportAudit has a bridge make an export, and checks that all of it has arrived.
func exportAudit(ctx context.Context, target *target, w io.Writer) (audit.ExportReport, error) {
	door, err := target.httpDoor(ctx)
	if err != nil {
		return audit.ExportReport{}, err
	}
	defer door.close()
	answer, err := door.post(ctx, "/audit/export", nil)
	if err != nil {
		return audit.ExportReport{}, err
	}
	defer answer.Body.Close()
	report, err := audit.VerifyExport(io.TeeReader(answer.Body, w), nil, nil)
	if err == nil && len(report.Problems) > 0 {
		err = fmt.Errorf("the export did not arrive whole: %s", report.Problems[0].Text)
	}
	return report, err
}

// An auditExport is an export that is to be verified.
type auditExport struct {
	file string
	keys []string
}

// verify checks the export, against heads that were noted elsewhere too.
func (e *auditExport) verify(heads []string) (json.RawMessage, error) {
	switch {
	case e.file == "":
		return nil, usageError{errors.New("--signed-by: is for an export, which --file names")}
	case len(e.keys) == 0:
		return nil, usageError{errors.New("--signed-by: is needed: the key that aibridge audit export has shown. What the file says itself proves nothing")}
	}
	var keys []ed25519.PublicKey
	for _, text := range e.keys {
		key, err := audit.ParseExportKey(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--signed-by: %w", err)}
		}
		keys = append(keys, key)
	}
	noted, err := audit.ParseHeads("", heads)
	if err != nil {
		return nil, usageError{fmt.Errorf("--head: %w", err)}
	}
	file, err := os.Open(e.file)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	report, err := audit.VerifyExport(file, keys, noted)
	if err != nil {
		return nil, err
	}
	return json.Marshal(report)
}
