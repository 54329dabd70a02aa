package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

func healthCommand() *cobra.Command {
	var target target
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a bridge whether it is ready",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			base, err := target.httpURL(cmd.Context())
			if err != nil {
				return err
			}
			config, err := target.tlsConfig()
			if err != nil {
				return err
			}
			request, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, base+"/readyz", nil)
			if err != nil {
				return usageError{err}
			}
			client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
			response, err := client.Do(request)
			if err != nil {
				return hinted{err, "is a bridge running there? aibridge serve --dev starts one; --url or --data lead to another"}
			}
			defer response.Body.Close()
			body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s\n", bytes.TrimSpace(body))
			if response.StatusCode != http.StatusOK {
				return fmt.Errorf("the bridge is not ready: %s", response.Status)
			}
			return nil
		},
	}
	target.addFlags(cmd.Flags())
	return cmd
}
