package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/aibridge/aibridge/internal/freeport"
)

func main() {
	program := flag.String("bridge", "bin/aibridge", "the program to test")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *program, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mcpconformance:", err)
		os.Exit(1)
	}
}

// run starts a bridge that uses the fixture, and a command, the suite, with
// the URL to test behind its arguments.
func run(ctx context.Context, program string, suite []string) error {
	if len(suite) == 0 {
		return errors.New("the command of the suite is missing")
	}
	data, err := os.MkdirTemp("", "aibridge-mcp-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data) //nolint:errcheck // a temporary folder
	fixture := httptest.NewServer(newFixture())
	defer fixture.Close()
	bridge, end, err := startBridge(ctx, program, data, fixture.URL)
	if err != nil {
		return err
	}
	defer end()
	gateway := httptest.NewServer(newGateway(bridge))
	defer gateway.Close()
	if err := ready(ctx, gateway.URL); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, suite[0], append(suite[1:], "--url", gateway.URL+"/mcp")...) //nolint:gosec // what its user wants to run
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// configuration has the bridge use the fixture, and answer calls with tasks early.
const configuration = `mcp:
  task_after_ms: 200
  servers:
    - {name: %[1]s, url: %[3]s, trusted: true, elicitation: true, sampling: {on: true, by: caller}, tools: ["test_*", greet, slow_compute, "*_job", "json_*"]}
    - {name: %[2]s, url: %[3]s, trusted: true, risk: ask, tools: [confirm_delete], prompts: ["-"]}
`

// startBridge runs the program, and returns where its MCP is.
func startBridge(ctx context.Context, program, data, fixture string) (*url.URL, func(), error) {
	file := filepath.Join(data, "config.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, configuration, prefix, guarded, fixture), 0o600); err != nil {
		return nil, nil, err
	}
	arguments := []string{"serve", "--dev", "--data", filepath.Join(data, "data"), "--config", file}
	address := ""
	for _, door := range []string{"--http", "--mqtt", "--mqtts", "--ws"} {
		free := freeport.Address()
		if address == "" {
			address = free
		}
		arguments = append(arguments, door, free)
	}
	log, err := os.Create(filepath.Join(data, "log"))
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, program, arguments...) //nolint:gosec // what its user wants to test
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	return &url.URL{Scheme: "http", Host: address}, func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		_ = log.Close()
	}, nil
}

// ready waits until the bridge offers the fixture's tools.
func ready(ctx context.Context, gateway string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if offers(ctx, gateway+"/mcp", "test_simple_text") {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return errors.New("the bridge does not offer the tools of the suite")
		}
	}
}

func offers(ctx context.Context, endpoint, tool string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, callOf(tool))
	if err != nil {
		return false
	}
	for key, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool,
	} {
		r.Header.Set(key, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer response.Body.Close() //nolint:errcheck // it was only asked for
	return succeeded(response.Body)
}
