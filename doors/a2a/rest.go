package a2a

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// A destination is the operation of a path, with its arguments.
type destination struct {
	agent   string // "" for the bridge
	rpc     bool
	card    bool
	op      string            // of REST
	fields  map[string]string // of its request, from the path
	allowed string            // methods that the path takes, if it does not take that of the request
}

// route returns the destination of a path below the endpoint.
func route(method, path string) (to destination, found bool) {
	var segments []string
	if path != "" {
		segments = strings.Split(path, "/")
	}
	switch {
	case len(segments) == 0:
		to.rpc = true
		return to.taking(method, http.MethodPost)
	case strings.HasSuffix("/"+path, CardPath):
		to.card = true
		if agent := strings.TrimSuffix("/"+path, CardPath); strings.Count(agent, "/") == 1 {
			to.agent = unescaped(agent[1:])
			return to.taking(method, http.MethodGet, http.MethodHead)
		}
		return to, false
	}
	if bound, ok := bind(method, segments); ok || bound.allowed != "" {
		return bound, ok
	}
	to.agent = unescaped(segments[0])
	if len(segments) == 1 {
		to.rpc = true
		return to.taking(method, http.MethodPost)
	}
	bound, ok := bind(method, segments[1:])
	bound.agent = to.agent
	return bound, ok
}

// taking reports whether the path takes the method of the request.
func (to destination) taking(method string, methods ...string) (destination, bool) {
	for _, m := range methods {
		if m == method {
			return to, true
		}
	}
	to.allowed = strings.Join(methods, ", ")
	return to, false
}

// bind finds the operation of a path of REST.
func bind(method string, segments []string) (to destination, found bool) {
	last, verb, _ := strings.Cut(segments[len(segments)-1], ":")
	switch {
	case len(segments) == 1 && segments[0] == "message:send":
		to.op = "SendMessage"
		return to.taking(method, http.MethodPost)
	case len(segments) == 1 && segments[0] == "message:stream":
		to.op = "SendStreamingMessage"
		return to.taking(method, http.MethodPost)
	case len(segments) == 1 && segments[0] == "extendedAgentCard":
		to.op = "GetExtendedAgentCard"
		return to.taking(method, http.MethodGet)
	case segments[0] != "tasks":
		return to, false
	case len(segments) == 1:
		to.op = "ListTasks"
		return to.taking(method, http.MethodGet)
	case len(segments) == 2 && verb == "cancel":
		to.op, to.fields = "CancelTask", map[string]string{"id": unescaped(last)}
		return to.taking(method, http.MethodPost)
	case len(segments) == 2 && verb == "subscribe": // POST in the text of the specification, GET in its .proto file
		to.op, to.fields = "SubscribeToTask", map[string]string{"id": unescaped(last)}
		return to.taking(method, http.MethodPost, http.MethodGet)
	case len(segments) == 2:
		to.op, to.fields = "GetTask", map[string]string{"id": unescaped(segments[1])}
		return to.taking(method, http.MethodGet)
	case segments[2] != "pushNotificationConfigs":
		return to, false
	}
	to.fields = map[string]string{"taskId": unescaped(segments[1])}
	switch len(segments) {
	case 3:
		to.op = "ListTaskPushNotificationConfigs"
		if method == http.MethodPost {
			to.op = "CreateTaskPushNotificationConfig"
		}
		return to.taking(method, http.MethodGet, http.MethodPost)
	case 4:
		to.fields["id"] = unescaped(segments[3])
		to.op = "GetTaskPushNotificationConfig"
		if method == http.MethodDelete {
			to.op = "DeleteTaskPushNotificationConfig"
		}
		return to.taking(method, http.MethodGet, http.MethodDelete)
	}
	return to, false
}

// serveREST serves a request of HTTP+JSON.
func (d *Door) serveREST(ctx context.Context, x *exchange, c *caller, to *destination) {
	if err := x.speaks(); err != nil {
		x.refuse(err)
		return
	}
	r, err := d.request(x, to)
	if err != nil {
		x.refuse(err)
		return
	}
	d.perform(ctx, x, c, operations[to.op], r)
}

// request is the request of an operation: its body or its query, and the values of the
// path, which take precedence.
func (d *Door) request(x *exchange, to *destination) (*reader, error) {
	r, _ := read(nil)
	if x.r.Method == http.MethodPost && x.r.ContentLength != 0 {
		body, err := d.body(x, restType, jsonType)
		if err != nil {
			return nil, err
		}
		if !json.Valid(body) {
			return nil, refusal(parseError, "Invalid JSON payload")
		}
		var ok bool
		if r, ok = read(body); !ok {
			return nil, refusal(invalidParams, "Invalid parameters: the body must be an object")
		}
	} else {
		r.query(x.r.URL.Query())
	}
	for name, value := range to.fields {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		delete(r.fields, snakeOf(name))
		r.fields[name] = text
	}
	return r, r.fault()
}

// flags are the fields of requests by GET that are booleans.
var flags = map[string]bool{"includeArtifacts": true}

// query takes the fields of a request from a query.
func (r *reader) query(values url.Values) {
	for name, list := range values {
		if len(list) != 1 {
			r.refuse(name, "is there more than once")
		}
		text := json.RawMessage(list[0])
		if !flags[name] || list[0] != "true" && list[0] != "false" {
			text, _ = json.Marshal(list[0]) // a string
		}
		r.fields[name] = text
	}
}
