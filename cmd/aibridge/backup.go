package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/backup"
	"github.com/aibridge/aibridge/internal/config"
	"github.com/aibridge/aibridge/internal/storage"
)

func backupCommand() *cobra.Command {
	var b backupRun
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write everything a bridge knows to a file, while it runs or not",
		Long: `Write everything a bridge knows to FILE ("-" for standard output), but for the
secrets in its data folder. A bridge that runs on the data folder, or at --url,
makes the backup while it serves, for an administrator; the state of one that
is stopped is read from the data folder. The backup is read again while it is
written, and its sums are checked.`,
		Example: `  aibridge backup bridge.tar.gz
  aibridge backup bridge.tar.gz --url https://bridge.example:9010 --api-key-file admin.key
  aibridge backup - --without-contents | ssh backups 'cat > bridge.tar.gz'`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			keepPrivate()
			b.progress = newProgress(cmd.ErrOrStderr(), "copying", 0)
			var summary string
			write := func(w io.Writer) (err error) {
				summary, err = b.write(cmd, w)
				return err
			}
			var err error
			if args[0] == "-" {
				err = write(cmd.OutOrStdout())
			} else {
				err = writeWhole(args[0], write)
			}
			b.progress.end()
			if err == nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "saved", summary)
			}
			return err
		},
	}
	config.AddStateFlags(cmd.Flags())
	b.target.addAddressFlag(cmd.Flags())
	b.target.addCredentialFlags(cmd.Flags())
	cmd.Flags().BoolVar(&b.withoutContents, "without-contents", false, "leave out the contents of files, which may be many")
	return cmd
}

// A backupRun is one backup that is being made.
type backupRun struct {
	target          target
	withoutContents bool
	progress        *progress
}

// write has the bridge at --url make the backup, or the one that runs on the data folder,
// or reads the data folder when none does. It returns the contents of the backup in a few
// words.
func (b *backupRun) write(cmd *cobra.Command, w io.Writer) (summary string, err error) {
	if b.target.url != "" && !cmd.Flags().Changed("data") {
		return b.ask(cmd.Context(), w)
	}
	config, err := app.LoadConfig(cmd.Flags())
	if err != nil {
		return "", usageError{err}
	}
	summary, err = storage.Backup(cmd.Context(), config, w, backup.Options{WithoutContents: b.withoutContents, Progress: b.progress.copying})
	if !errors.Is(err, storage.ErrInUse) {
		return summary, err
	}
	b.target.url, b.target.data = "", config.Data
	return b.ask(cmd.Context(), w)
}

// ask has a running bridge make the backup.
func (b *backupRun) ask(ctx context.Context, w io.Writer) (summary string, err error) {
	door, err := b.target.httpDoor(ctx)
	if err != nil {
		return "", err
	}
	defer door.close()
	answer, err := door.post(ctx, "/backup?contents="+strconv.FormatBool(!b.withoutContents), nil)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	return backup.Check(io.TeeReader(answer.Body, w), b.progress.copying)
}

// writeWhole writes a file that only its owner may read, beside its place and then
// renamed into it, so that there is never half a backup.
func writeWhole(path string, write func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = write(file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

func restoreCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Fill the data folder of a stopped bridge from a backup",
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			keepPrivate()
			config, err := app.LoadConfig(cmd.Flags())
			if err != nil {
				return usageError{err}
			}
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			far := newProgress(cmd.ErrOrStderr(), "restoring "+cell(args[0]), sizeOf(file))
			defer far.end()
			summary, err := storage.Restore(cmd.Context(), config, far.reader(file), force)
			far.end()
			if err != nil {
				return fmt.Errorf("restore %s: %w", args[0], err)
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "restored", summary)
			return nil
		},
	}
	config.AddStateFlags(cmd.Flags())
	cmd.Flags().BoolVar(&force, "force", false, "replace what the data folder holds")
	return cmd
}

// exactArgs is cobra.ExactArgs with an error that counts as wrong use.
func exactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := cobra.ExactArgs(n)(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}
