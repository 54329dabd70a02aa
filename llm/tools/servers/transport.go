package servers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxAnswer is the greatest size of one answer of a server, in bytes. A longer message
// of a program ends the connection.
const maxAnswer = sdk.DefaultMaxLineLength

// transport returns the transport to the server.
func (l *connection) transport(ctx context.Context) (sdk.Transport, error) {
	if l.device != nil {
		return l.device.Way, nil
	}
	if len(l.config.Command) > 0 {
		return l.program(ctx)
	}
	way := http.DefaultTransport.(*http.Transport).Clone()
	way.ResponseHeaderTimeout = l.config.timeout()
	if l.config.CA != "" {
		roots, err := os.ReadFile(l.config.CA)
		pool := x509.NewCertPool()
		if err != nil || !pool.AppendCertsFromPEM(roots) {
			return nil, errors.New("ca: the file has no certificate")
		}
		way.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	context.AfterFunc(ctx, way.CloseIdleConnections)
	return &sdk.StreamableClientTransport{
		Endpoint: l.config.URL,
		HTTPClient: &http.Client{
			Transport: &withHeaders{next: way, headers: l.config.Headers},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return errors.New("the server redirects, which is not followed")
			},
		},
		MaxRetries:   -1, // no retries: a lost server is connected to anew
		MaxEventSize: maxAnswer,
	}, nil
}

// withHeaders adds headers to every request. Their values are looked up each time, so
// that a secret may be replaced.
type withHeaders struct {
	next    http.RoundTripper
	headers map[string]string
}

// RoundTrip implements [http.RoundTripper].
func (w *withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range w.headers {
		text, err := resolve(value)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", name, err)
		}
		r.Header.Set(name, text)
	}
	response, err := w.next.RoundTrip(r)
	if err == nil && r.Method == http.MethodPost {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, maxAnswer), response.Body}
	}
	return response, err
}

// program returns the transport that starts the server. The program gets only the
// necessary variables of the bridge's environment.
func (l *connection) program(ctx context.Context) (sdk.Transport, error) {
	cmd := exec.CommandContext(ctx, l.config.Command[0], l.config.Command[1:]...) //nolint:gosec // the operator's own configuration says which
	cmd.Dir = l.config.Dir
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = []string{}
	for _, name := range []string{"PATH", "HOME", "LANG", "TMPDIR", "SystemRoot"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	for name, value := range l.config.Env {
		text, err := resolve(value)
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", name, err)
		}
		cmd.Env = append(cmd.Env, name+"="+text)
	}
	cmd.Stderr = &complaints{log: l.service.opts.Log, server: l.config.Name}
	return &sdk.CommandTransport{Command: cmd, TerminateDuration: 2 * time.Second}, nil
}

// complaints logs the output of a program to stderr.
type complaints struct {
	log    *slog.Logger
	server string
}

// Write implements [io.Writer].
func (c *complaints) Write(p []byte) (int, error) {
	c.log.Debug("an MCP server says", "server", c.server, "text", short(string(p), 2048))
	return len(p), nil
}
