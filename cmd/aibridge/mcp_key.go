package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/aibridge/aibridge/internal/app"
)

// mcpKeyFile is the file in the data folder with the key of aibridge mcp.
const mcpKeyFile = "mcp.key"

// mcpScopes are the default scopes of aibridge mcp: look
// around, call skills and groups, and read files.
func mcpScopes() []string {
	return []string{
		"bridge:describe", "skill:discover", "skill:invoke", "agent:get", "agent:list", "resource:get", "resource:list",
		"cap:query", "scene:query", "group:query", "group:data.get", "group:dispatch", "task:get", "task:list", "task:cancel",
		"vfs:list", "vfs:read", "vfs:status", "mcp:tool.call", "mcp:resource.list", "mcp:resource.read", "mcp:prompt.list", "mcp:prompt.get", "mcp:argument.complete",
	}
}

// An mcpGuest is the principal of aibridge mcp at the bridge.
type mcpGuest struct {
	target target
	create bool
	scopes []string
}

// base is the HTTP door of the bridge. Another door is asked for it by the guest,
// and by the administrator only where that one makes the guest's key next.
func (g *mcpGuest) base(ctx context.Context) (string, error) {
	asks := g.target
	if asks.url == "" || overHTTP(asks.url) {
		return asks.httpAddress(), nil
	}
	if _, err := g.known(); err != nil && (!errors.Is(err, errNoKey) || !g.create) {
		return "", err
	}
	kept := filepath.Join(asks.folder(), mcpKeyFile)
	if _, err := os.Stat(kept); err == nil && !g.shows() {
		asks.keyFile = kept
	}
	return asks.httpURL(ctx)
}

// shows reports whether a flag or a variable gives a credential.
func (g *mcpGuest) shows() bool {
	t := &g.target
	return t.tokenFile != "" || t.keyFile != "" || t.cert != "" || os.Getenv("AIBRIDGE_TOKEN") != "" || os.Getenv("AIBRIDGE_API_KEY") != ""
}

// identify finds the credential to show, and how to show it.
func (g *mcpGuest) identify(ctx context.Context, client *http.Client, endpoint string) (func(context.Context, http.Header) error, error) {
	t := &g.target
	if t.tokenFile != "" && t.keyFile != "" {
		return nil, usageError{errors.New("only one of --token-file and --api-key-file can be shown")}
	}
	if t.tokenFile != "" {
		if _, err := g.known(); err != nil {
			return nil, err
		}
		return func(_ context.Context, h http.Header) error {
			token, err := readSecret(t.tokenFile)
			h.Set("Authorization", "Bearer "+token)
			return err
		}, nil
	}
	secret, err := g.secret(ctx, client, endpoint)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, h http.Header) error {
		if secret != "" {
			h.Set("Authorization", "Bearer "+secret)
		}
		return nil
	}, nil
}

// errNoKey is the error for guests without a key at a bridge that needs one.
var errNoKey = usageError{errors.New("the bridge wants a key: run aibridge mcp --create-key once, or give one by --api-key-file")}

// secret is the key or token to show, "" for none.
func (g *mcpGuest) secret(ctx context.Context, client *http.Client, endpoint string) (string, error) {
	secret, err := g.known()
	if !errors.Is(err, errNoKey) || !g.create {
		return secret, err
	}
	administrator, err := g.administrator()
	if err != nil {
		return "", err
	}
	return g.createKey(ctx, client, strings.TrimSuffix(endpoint, "/mcp"), administrator, filepath.Join(g.target.folder(), mcpKeyFile))
}

// known is the key or token that there is already, "" if none is needed.
func (g *mcpGuest) known() (string, error) {
	t := &g.target
	if t.tokenFile != "" {
		return readSecret(t.tokenFile)
	}
	administrator, err := g.administrator()
	if err != nil {
		return "", err
	}
	secret, err := g.given()
	if err != nil {
		return "", err
	}
	if secret != "" && secret == administrator {
		return "", usageError{errors.New("this is the administrator's key: MCP clients get one of their own, see --create-key")}
	}
	if secret != "" || t.cert != "" {
		return secret, nil
	}
	secret, err = readSecret(filepath.Join(t.folder(), mcpKeyFile))
	switch {
	case err == nil:
		return secret, nil
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
		return "", err
	case administrator == "":
		return "", nil // a bridge under --dev asks for none
	}
	return "", errNoKey
}

// administrator is the administrator's key of the bridge on this machine, "" if
// it is not there to read.
func (g *mcpGuest) administrator() (string, error) {
	key, err := readSecret(filepath.Join(g.target.folder(), app.AdminKeyFile))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return "", nil
	}
	return key, err
}

// given is the secret from a flag or a variable.
func (g *mcpGuest) given() (string, error) {
	switch {
	case g.target.keyFile != "":
		return readSecret(g.target.keyFile)
	case os.Getenv("AIBRIDGE_TOKEN") != "":
		return os.Getenv("AIBRIDGE_TOKEN"), nil
	}
	return os.Getenv("AIBRIDGE_API_KEY"), nil
}

// createKey has the bridge make a key for MCP clients, and keeps it in a file
// of its owner's.
func (g *mcpGuest) createKey(ctx context.Context, client *http.Client, base, administrator, path string) (string, error) {
	params, err := json.Marshal(map[string]any{
		"principal_id": "mcp", "name": "aibridge mcp", "kind": "operator", "roles": []string{"operator"}, "scopes": g.scopes,
	})
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/api/v1/commands/key.create", bytes.NewReader(params))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+administrator)
	response, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("make a key: the bridge answered %s: %s", response.Status, bytes.TrimSpace(body))
	}
	var made struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal(body, &made); err != nil || made.Key == "" {
		return "", errors.New("make a key: the bridge answered without one")
	}
	if _, err := keyToFile(body, path); err != nil {
		return "", err
	}
	return made.Key, nil
}
