package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/sdk/starter"
)

func newCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "new", Short: "Begin something of your own: a folder that runs"}
	cmd.AddCommand(newDeviceCommand())
	return cmd
}

func newDeviceCommand() *cobra.Command {
	var lang, dir string
	cmd := &cobra.Command{
		Use:   "device NAME",
		Short: "Begin a device: a folder with a program that serves a skill",
		Long: `Make a folder with a device that runs beside a bridge on this machine
(aibridge serve --dev): an agent and a skill of the name, with a level to get and
to set. Change the two functions, and it is yours.

Languages:
` + languageList(),
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			language, err := starter.Find(lang)
			if err != nil {
				return usageError{err}
			}
			if dir == "" {
				dir = args[0]
			}
			device := starter.Device{ID: protocol.AgentID(args[0]), Version: released(version)}
			written, err := language.Write(dir, device)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "wrote %s to %s\n", strings.Join(written, ", "), dir)
			fmt.Fprintf(out, "run it:   cd %s && %s\n", dir, language.Command(device))
			_, err = fmt.Fprintf(out, "call it:  aibridge skill invoke %s set_level params.level=40\n", device.ID)
			return err
		},
	}
	cmd.Flags().StringVar(&lang, "lang", "python", "the language")
	cmd.Flags().StringVar(&dir, "dir", "", "the folder (default: one of the device's name)")
	_ = cmd.RegisterFlagCompletionFunc("lang", cobra.FixedCompletions(languageNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func languageNames() []string {
	var names []string
	for _, l := range starter.Languages() {
		names = append(names, l.Name)
	}
	return names
}

func languageList() string {
	var list strings.Builder
	for _, l := range starter.Languages() {
		fmt.Fprintf(&list, "  %-8s %s\n", l.Name, l.Summary)
	}
	return strings.TrimRight(list.String(), "\n")
}

var release = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

// released is the version if it is one that others can fetch.
func released(version string) string {
	if release.MatchString(version) {
		return version
	}
	return ""
}
