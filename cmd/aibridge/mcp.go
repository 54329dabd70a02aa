package main

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/doors/mcp/stdio"
)

func mcpCommand() *cobra.Command {
	var g mcpGuest
	var endpoint, level string
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve a bridge to an MCP client on stdin and stdout",
		Long: `Serve a bridge to an MCP client (Model Context Protocol) on stdin and stdout:
its skills and devices as tools, its files as resources, its skills' manuals as
prompts. This is what the configuration of a client names as its command.

It asks the bridge as a party of its own, with a key that may look at things
and call skills, and nothing else; never as the administrator. The key is what
--api-key-file or AIBRIDGE_API_KEY say, or DATA/mcp.key. With --create-key the
first run on the bridge's machine makes that one; afterwards it is there. A
bridge under --dev wants none.`,
		Example: `  aibridge mcp --create-key
  aibridge mcp --endpoint https://bridge.example:9010/mcp --api-key-file me.key
  claude mcp add aibridge -- aibridge mcp`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var lowest slog.Level
			if err := lowest.UnmarshalText([]byte(level)); err != nil {
				return usageError{errors.New("--log-level must be debug, info, warn or error")}
			}
			if endpoint == "" {
				base, err := g.base(cmd.Context())
				if err != nil {
					return err
				}
				endpoint = base + "/mcp"
			}
			if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				return usageError{errors.New("--endpoint must be a URL such as http://127.0.0.1:9010/mcp")}
			}
			config, err := g.target.tlsConfig()
			if err != nil {
				return err
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}}
			defer client.CloseIdleConnections()
			identify, err := g.identify(cmd.Context(), client, endpoint)
			if err != nil {
				return err
			}
			return stdio.Run(cmd.Context(), stdio.Options{
				Endpoint: endpoint,
				HTTP:     client,
				Identify: identify,
				In:       cmd.InOrStdin(),
				Out:      cmd.OutOrStdout(),
				Log:      slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: lowest})),
			})
		},
	}
	t := &g.target
	flags := cmd.Flags()
	flags.StringVar(&endpoint, "endpoint", os.Getenv("AIBRIDGE_MCP_URL"), "URL of the bridge's MCP endpoint (AIBRIDGE_MCP_URL; otherwise of the bridge on this machine)")
	t.addAddressFlag(flags)
	flags.StringVar(&t.data, "data", "", "data folder of a bridge on this machine, to find its address, CA and DATA/mcp.key in (AIBRIDGE_DATA)")
	flags.StringVar(&t.ca, "ca", os.Getenv("AIBRIDGE_CA"), "PEM file with the roots that the bridge's certificate must chain to (AIBRIDGE_CA)")
	flags.StringVar(&t.cert, "cert", os.Getenv("AIBRIDGE_CERT"), "PEM file with the client certificate to show (AIBRIDGE_CERT)")
	flags.StringVar(&t.certKey, "key", os.Getenv("AIBRIDGE_KEY"), "PEM file with the key of the client certificate (AIBRIDGE_KEY)")
	flags.StringVar(&t.tokenFile, "token-file", "", "file with a token to show, read for every request (otherwise AIBRIDGE_TOKEN)")
	flags.StringVar(&t.keyFile, "api-key-file", "", "file with the API key to show (otherwise AIBRIDGE_API_KEY, then DATA/"+mcpKeyFile+")")
	flags.BoolVar(&g.create, "create-key", false, "make DATA/"+mcpKeyFile+" if it is not there, with the administrator's key of the bridge on this machine")
	flags.StringSliceVar(&g.scopes, "scope", mcpScopes(), "actions that a key made by --create-key is limited to")
	flags.StringVar(&level, "log-level", "warn", "what goes to stderr: debug, info, warn or error")
	return cmd
}
