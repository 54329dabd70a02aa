// Command aibridge is the bridge, and everything an operator needs beside it.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/config"
)

// version is set when the binary is linked; "go install …@v1.2.3" sets none.
var version = "dev"

func init() {
	if info, ok := debug.ReadBuildInfo(); ok && version == "dev" && released(info.Main.Version) != "" {
		version = info.Main.Version
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	cmd, err := root().ExecuteContextC(ctx)
	stop()
	if err != nil {
		printError(os.Stderr, cmd, err)
	}
	os.Exit(exitCode(err))
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "aibridge",
		Short:         "The bridge between devices, skills and language models",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Long: `AI Bridge is one program: an MQTT broker, a command router and the state of
your devices, skills and models.

Exit codes: 0 done · 1 the program failed · 2 used wrongly ·
10 the request was bad (1xxx) · 20 not allowed (2xxx) · 30 the thing is not
there or in the wrong state (3xxx) · 40 a service failed (4xxx) ·
50 the bridge failed (5xxx).`,
	}
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := config.CheckEnvironment(); err != nil {
			return usageError{err}
		}
		return checkColour(cmd)
	}
	addColour(cmd)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	cmd.AddCommand(
		serveCommand(), versionCommand(), runCommand(), callCommand(), watchCommand(), describeCommand(), healthCommand(),
		agentCommand(), skillCommand(), stateCommand(), taskCommand(), vfsCommand(), mcpCommand(), certCommand(), sessionsCommand(), clusterCommand(), keyCommand(), tokenCommand(), policyCommand(), approvalsCommand(), chatCommand(), auditCommand(), backupCommand(), restoreCommand(), verifyCommand(), benchCommand(), conformanceCommand(), newCommand(), bindingCommand(), homeAssistantCommand(), importCommand(),
	)
	addNouns(cmd, app.Commands())
	explainUsage(cmd)
	return cmd
}
