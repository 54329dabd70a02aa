package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/internal/app"
)

func backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write everything a stopped bridge knows to a file",
		Long: `Write everything in the data folder to FILE ("-" for standard output).
The bridge must be stopped when its state is embedded; a NATS cluster can be
backed up while bridges run.`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			config, err := app.LoadConfig(cmd.Flags())
			if err != nil {
				return usageError{err}
			}
			if args[0] == "-" {
				return app.Backup(cmd.Context(), config, cmd.OutOrStdout())
			}
			// Written beside and renamed, so that FILE is never half a backup.
			part := args[0] + ".part"
			file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
			if err != nil {
				return err
			}
			defer func() {
				if err != nil {
					_ = os.Remove(part)
				}
			}()
			if err := app.Backup(cmd.Context(), config, file); err != nil {
				_ = file.Close()
				return err
			}
			if err := file.Sync(); err != nil {
				_ = file.Close()
				return err
			}
			if err := file.Close(); err != nil {
				return err
			}
			return os.Rename(part, args[0])
		},
	}
	app.AddFlags(cmd.Flags())
	return cmd
}

func restoreCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Fill the data folder of a stopped bridge from a backup",
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := app.LoadConfig(cmd.Flags())
			if err != nil {
				return usageError{err}
			}
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			if err := app.Restore(cmd.Context(), config, file, force); err != nil {
				return fmt.Errorf("restore %s: %w", args[0], err)
			}
			_, err = io.WriteString(cmd.ErrOrStderr(), "restored\n")
			return err
		},
	}
	app.AddFlags(cmd.Flags())
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
