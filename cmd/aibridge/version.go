package main

import (
	"encoding/json"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/protocol"
)

// A versionShown is the output of aibridge version.
type versionShown struct {
	Version  string `json:"version"`
	Protocol string `json:"protocol"`
	Commit   string `json:"commit,omitempty"` // of the source, if the binary knows
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func versionCommand() *cobra.Command {
	var shown format
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show which version this is, and of the protocol",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			about := versionShown{Version: version, Protocol: protocol.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						about.Commit = s.Value
					}
				}
			}
			data, err := json.Marshal(about)
			if err != nil {
				return err
			}
			return shown.write(output(cmd), data, writeTable)
		},
	}
	shown.addFlags(cmd)
	return cmd
}
