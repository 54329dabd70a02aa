package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
)

// benchProgram is the load generator. It is a program of its own, as it has rival
// brokers linked into it.
const benchProgram = "aibridge-bench"

func benchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "bench [mqtt|invoke|guard|drill|drain] [flags]",
		Short: "Measure this bridge side by side with other brokers, or break several on purpose",
		Long: `Run aibridge-bench, the load generator, from beside this program or from the
PATH, with the same arguments. docs/benchmarks.md says how to build it and how to
read its figures, docs/drill.md how bridges are broken.`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			program, err := findBench()
			if err != nil {
				return err
			}
			run := exec.CommandContext(cmd.Context(), program, args...)
			run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
			run.Stdin, run.Stdout, run.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			return run.Run()
		},
	}
}

func findBench() (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), benchProgram)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	if found, err := exec.LookPath(benchProgram); err == nil {
		return found, nil
	}
	return "", hinted{errors.New(benchProgram + " is not installed"), "build it beside this program: go build -o bin/ ./cmd/" + benchProgram}
}
