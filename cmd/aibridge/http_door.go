package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// headTimeout bounds the wait for the beginning of an answer over HTTP.
const headTimeout = 2 * time.Minute

// maxRefusal bounds an answer that is an error.
const maxRefusal = 1 << 20

// An httpDoor is a bridge as it is asked over HTTP.
type httpDoor struct {
	base   string // URL without a slash at its end
	bearer string // "" for none
	client *http.Client
}

// httpDoor is the place where the target answers HTTP, with the credential for it.
func (t *target) httpDoor(ctx context.Context) (*httpDoor, error) {
	bearer, err := t.bearer()
	if err != nil {
		return nil, err
	}
	config, err := t.tlsConfig()
	if err != nil {
		return nil, err
	}
	base, err := t.httpURL(ctx)
	if err != nil {
		return nil, err
	}
	return newHTTPDoor(base, bearer, config), nil
}

// newHTTPDoor is a door at a base URL.
func newHTTPDoor(base, bearer string, config *tls.Config) *httpDoor {
	transport := &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, ResponseHeaderTimeout: headTimeout}
	return &httpDoor{base: base, bearer: bearer, client: &http.Client{Transport: transport}}
}

func (d *httpDoor) close() { d.client.CloseIdleConnections() }

// post sends a body of JSON, and returns an answer that is a success.
func (d *httpDoor) post(ctx context.Context, path string, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.base+path, body)
	if err != nil {
		return nil, usageError{err}
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if d.bearer != "" {
		request.Header.Set("Authorization", "Bearer "+d.bearer)
	}
	answer, err := d.client.Do(request)
	if err != nil {
		return nil, hinted{err, "is a bridge running there? aibridge serve --dev starts one; --url or --data lead to another"}
	}
	if answer.StatusCode == http.StatusOK {
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, refusal(answer)
}

// call runs a command with its parameters, and returns the result.
func (d *httpDoor) call(ctx context.Context, command string, params map[string]any) (json.RawMessage, error) {
	question, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	answer, err := d.post(ctx, "/api/v1/commands/"+command, bytes.NewReader(question))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var result json.RawMessage
	if err := json.NewDecoder(answer.Body).Decode(&result); err != nil {
		return nil, fmt.Errorf("%s answered with something that is no answer: %w", d.base, err)
	}
	return result, nil
}

// refusal is the error in an answer.
func refusal(answer *http.Response) error {
	var said struct {
		Error *protocol.Error `json:"error"`
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
	if err == nil && json.Unmarshal(data, &said) == nil && said.Error != nil {
		return said.Error
	}
	return fmt.Errorf("%s answered %s", answer.Request.URL.Redacted(), answer.Status)
}
