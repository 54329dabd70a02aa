package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/internal/app"
)

func backupCommand() *cobra.Command {
	var options app.BackupOptions
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write everything a stopped bridge knows to a file",
		Long: `Write everything the bridge knows to FILE ("-" for standard output), but for
the secrets in its data folder. The bridge must be stopped when its state is
embedded; a NATS cluster can be backed up while bridges run.`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			keepPrivate()
			config, err := app.LoadConfig(cmd.Flags())
			if err != nil {
				return usageError{err}
			}
			var summary string
			write := func(w io.Writer) (err error) {
				summary, err = app.Backup(cmd.Context(), config, w, options)
				return err
			}
			if args[0] == "-" {
				err = write(cmd.OutOrStdout())
			} else {
				err = writeWhole(args[0], write)
			}
			if err == nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "saved", summary)
			}
			return err
		},
	}
	app.AddStateFlags(cmd.Flags())
	cmd.Flags().BoolVar(&options.WithoutContents, "without-contents", false, "leave out the contents of files, which may be many")
	return cmd
}

// writeWhole writes a file that only its owner may read, beside its place and
// then renamed into it, so that what stands there is never half a backup.
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
			summary, err := app.Restore(cmd.Context(), config, file, force)
			if err != nil {
				return fmt.Errorf("restore %s: %w", args[0], err)
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "restored", summary)
			return nil
		},
	}
	app.AddStateFlags(cmd.Flags())
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
