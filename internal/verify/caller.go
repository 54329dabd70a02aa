package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A caller sends commands to the copy, with a key.
type caller struct {
	http *http.Client
	url  string
	key  string // "" for none
}

// A failure is the error that a command was answered with.
type failure struct {
	Code    protocol.Code  `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
}

func (f *failure) Error() string { return fmt.Sprintf("%s: %s", f.Code, f.Message) }

// patience bounds one command.
const patience = 30 * time.Second

// do runs a command under an id, and decodes its result unless that is nil. A
// command that fails returns a *failure.
func (c *caller) do(ctx context.Context, id, command string, params, result any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body, err := json.Marshal(map[string]any{
		"version": protocol.Version, "id": id, "timestamp": time.Now().UnixMilli(), "type": "request", "command": command, "params": params,
		"metadata": map[string]any{"timeout": patience.Milliseconds()},
	})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/api/v1/commands", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		request.Header.Set("X-API-Key", c.key)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 8<<20))
	if err != nil {
		return err
	}
	var response struct {
		Result json.RawMessage `json:"result"`
		Error  *failure        `json:"error"`
	}
	if err := json.Unmarshal(text, &response); err != nil {
		return fmt.Errorf("%s: HTTP status %d: %w", command, answer.StatusCode, err)
	}
	if response.Error != nil {
		return response.Error
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(response.Result, result)
}

// run is do under an id of its own.
func (c *caller) run(ctx context.Context, command string, params, result any) error {
	return c.do(ctx, protocol.NewID(), command, params, result)
}

// codeOf is the code that a command failed with, "" if it did not.
func codeOf(err error) protocol.Code {
	if f, ok := err.(*failure); ok { //nolint:errorlint // callers return it as it is
		return f.Code
	}
	return ""
}
