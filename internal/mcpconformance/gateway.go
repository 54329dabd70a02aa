package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// prefix is the bridge's name for the fixture.
const prefix = "conformance"

// guarded is its name for the fixture as a server whose calls need an approval.
const guarded = "guarded"

// Beginnings of names at the bridge.
const (
	tools     = "mcp." + prefix + "."
	asked     = "mcp." + guarded + "."
	resources = "mcp:///" + prefix + "/"
)

// toolsOf is the beginning of the bridge's name for a tool or a prompt of the suite,
// "" for another.
func toolsOf(name string) string {
	switch {
	case name == "confirm_delete":
		return asked
	case strings.HasPrefix(name, "test_"), slices.Contains([]string{"greet", "slow_compute", "failing_job", "protocol_error_job", "json_schema_2020_12_tool"}, name):
		return tools
	}
	return ""
}

// resourcesOf is the same of a URI.
func resourcesOf(uri string) string {
	if strings.HasPrefix(uri, "test://") {
		return resources
	}
	return ""
}

// newGateway passes requests on to the bridge, with its names.
func newGateway(bridge *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // connections fail while the bridge starts
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(bridge)
			if p.In.Host != "" && !strings.HasPrefix(p.In.Host, "127.0.0.1:") && !strings.HasPrefix(p.In.Host, "localhost:") {
				p.Out.Host = p.In.Host // for the bridge to refuse
			}
			there(p.Out)
		},
		ModifyResponse: func(r *http.Response) error {
			if strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
				r.Body = &lines{from: r.Body}
				return nil
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			body = back(body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			r.ContentLength = int64(len(body))
			r.Header.Set("Content-Length", strconv.Itoa(len(body)))
			return nil
		},
	}
}

// there puts the bridge's name for the fixture before a request's name.
func there(r *http.Request) {
	if r.Body == nil || r.Method != http.MethodPost {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var message map[string]json.RawMessage
	var params map[string]json.RawMessage
	changed, before := false, func(string) string { return "" }
	if json.Unmarshal(body, &message) == nil && json.Unmarshal(message["params"], &params) == nil {
		switch string(message["method"]) {
		case `"tools/call"`, `"prompts/get"`:
			before = toolsOf
			changed = rename(params, "name", before)
		case `"resources/read"`, `"resources/subscribe"`, `"resources/unsubscribe"`:
			before = resourcesOf
			changed = rename(params, "uri", before)
		case `"completion/complete"`:
			var ref map[string]json.RawMessage
			if json.Unmarshal(params["ref"], &ref) == nil {
				changed = rename(ref, "name", toolsOf) || rename(ref, "uri", resourcesOf)
				params["ref"], _ = json.Marshal(ref) // it came from JSON, as the others
			}
		}
	}
	if changed {
		message["params"], _ = json.Marshal(params)
		body, _ = json.Marshal(message)
	}
	if name := strings.TrimSpace(r.Header.Get("Mcp-Name")); before(name) != "" {
		r.Header.Set("Mcp-Name", before(name)+name)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
}

// rename puts the prefix before a name, and reports whether the name has one.
func rename(fields map[string]json.RawMessage, key string, before func(string) string) bool {
	var name string
	if json.Unmarshal(fields[key], &name) != nil || before(name) == "" {
		return false
	}
	fields[key], _ = json.Marshal(before(name) + name) // a text
	return true
}

// back takes the beginnings off again.
func back(body []byte) []byte {
	for _, before := range []string{tools, asked, resources} {
		body = bytes.ReplaceAll(body, []byte(`"`+before), []byte(`"`))
	}
	return body
}

// lines are those of a stream of events, each with [back].
type lines struct {
	from    io.ReadCloser
	read    []byte // and not complete
	changed []byte
}

// Read implements [io.Reader].
func (l *lines) Read(p []byte) (int, error) {
	for len(l.changed) == 0 {
		some := make([]byte, 32<<10)
		n, err := l.from.Read(some)
		l.read = append(l.read, some[:n]...)
		if end := bytes.LastIndexByte(l.read, '\n') + 1; end > 0 {
			l.changed, l.read = back(l.read[:end]), bytes.Clone(l.read[end:])
		}
		if err != nil && len(l.changed) == 0 {
			l.changed, l.read = l.read, nil
			if len(l.changed) == 0 {
				return 0, err
			}
		}
	}
	n := copy(p, l.changed)
	l.changed = l.changed[n:]
	return n, nil
}

// Close implements [io.Closer].
func (l *lines) Close() error { return l.from.Close() }

// callOf is a call of a tool.
func callOf(tool string) io.Reader {
	return strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{},`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, tool))
}

// succeeded reports whether the answer to a call is a result.
func succeeded(body io.Reader) bool {
	var answer struct {
		Result struct {
			Content []json.RawMessage `json:"content"`
			IsError bool              `json:"isError"`
		} `json:"result"`
	}
	return json.NewDecoder(body).Decode(&answer) == nil && len(answer.Result.Content) > 0 && !answer.Result.IsError
}
