package http

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

func TestEnvelopeIn(t *testing.T) {
	t.Parallel()
	router := &scripted{}
	_, server := serve(t, Options{Router: router})
	got := do(t, server, "POST", "/api/v1/commands", envelope("r-1", "test.echo", `{"text":"hi"}`))
	if got.status != 200 || got.header.Get("X-Request-Id") != "r-1" {
		t.Errorf("%d, id %q", got.status, got.header.Get("X-Request-Id"))
	}
	resp, err := protocol.DecodeResponse([]byte(got.body), protocol.Limits{})
	if err != nil || resp.ID != "r-1" || string(resp.Result) != `{"echo":{"text":"hi"}}` {
		t.Errorf("answer %s: %v", got.body, err)
	}
	if last := router.last(t); last.in.Door != "http" || last.in.Principal.ID != "ann" || last.in.Emit != nil {
		t.Errorf("the router was handed %+v", last.in)
	}
}

func TestParamsIn(t *testing.T) {
	t.Parallel()
	router := &scripted{}
	now := time.UnixMilli(1737000000000)
	_, server := serve(t, Options{Router: router, Now: func() time.Time { return now }})
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	got := do(t, server, "POST", "/api/v1/commands/test.echo?timeout_ms=1500", ` {"text":"hi"} `,
		"Idempotency-Key", `"order-7"`, "X-Request-Id", "proxy-1", "X-Trace-Id", "trace-9",
		"X-Timeout-Ms", "9", "X-Priority", "high", "traceparent", parent)
	if got.status != 200 || got.body != `{"echo":{"text":"hi"}}`+"\n" {
		t.Errorf("%d %q", got.status, got.body)
	}
	if id, trace := got.header.Get("X-Request-Id"), got.header.Get("X-Trace-Id"); id != "order-7" || trace != "trace-9" {
		t.Errorf("answered with id %q and trace %q", id, trace)
	}
	last := router.last(t)
	want := protocol.Metadata{TraceID: "trace-9", Priority: protocol.High, Timeout: 1500 * time.Millisecond}
	if m := last.req.Metadata; m.TraceID != want.TraceID || m.Priority != want.Priority || m.Timeout != want.Timeout || m.Events {
		t.Errorf("metadata %+v, want %+v", m, want)
	}
	if last.req.ID != "order-7" || last.req.Timestamp != now.UnixMilli() || last.req.Command != "test.echo" || last.in.Traceparent != parent {
		t.Errorf("request %+v", last.req)
	}
}

func TestParamsMayBeLeftOut(t *testing.T) {
	t.Parallel()
	router := &scripted{}
	_, server := serve(t, Options{Router: router})
	for _, body := range []string{"", " \r\n", "{}"} {
		if got := do(t, server, "POST", "/api/v1/commands/test.run", body); got.status != 200 {
			t.Errorf("%q: %d %s", body, got.status, got.body)
		}
		if p := string(router.last(t).req.Params); p != "{}" {
			t.Errorf("%q became %s", body, p)
		}
	}
}

func TestEveryRequestHasAnID(t *testing.T) {
	t.Parallel()
	router := &scripted{}
	_, server := serve(t, Options{Router: router})
	got := do(t, server, "POST", "/api/v1/commands/test.run", "{}")
	id := router.last(t).req.ID
	if len(id) != 36 || got.header.Get("X-Request-Id") != id {
		t.Errorf("made id %q, told %q", id, got.header.Get("X-Request-Id"))
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	router := &scripted{}
	_, server := serve(t, Options{Router: router, Limits: protocol.Limits{MaxBytes: 1000}})
	long := strings.Repeat("x", 65)
	for name, c := range map[string]struct {
		path, body string
		header     []string
		status     int
		code       string
	}{
		"envelope, not JSON":           {path: "", body: "hello", status: 400, code: "1000"},
		"envelope, empty":              {path: "", body: "", status: 400, code: "1000"},
		"envelope, no content type":    {path: "", body: "{}", header: []string{"Content-Type", ""}, status: 415, code: "1000"},
		"envelope, too large":          {path: "", body: envelope("a", "test.echo", `{"text":"`+strings.Repeat("x", 1000)+`"}`), status: 413, code: "1004"},
		"params, not JSON":             {path: "/test.echo", body: "hello", status: 400, code: "1000"},
		"params, two values":           {path: "/test.echo", body: "{}{}", status: 400, code: "1000"},
		"params, breaking out":         {path: "/test.echo", body: `{},"command":"test.run"`, status: 400, code: "1000"},
		"params, an array":             {path: "/test.echo", body: "[]", status: 400, code: "1001"},
		"params, null":                 {path: "/test.echo", body: "null", status: 400, code: "1001"},
		"params, too large":            {path: "/test.echo", body: `{"text":"` + strings.Repeat("x", 1000) + `"}`, status: 413, code: "1004"},
		"params as a form":             {path: "/test.echo", body: "{}", header: []string{"Content-Type", "text/plain"}, status: 415, code: "1000"},
		"params, other charset":        {path: "/test.echo", body: "{}", header: []string{"Content-Type", "application/json; charset=latin1"}, status: 415, code: "1000"},
		"params, compressed as brotli": {path: "/test.echo", body: "{}", header: []string{"Content-Encoding", "br"}, status: 415, code: "1000"},
		"params, broken content type":  {path: "/test.echo", body: "{}", header: []string{"Content-Type", "application/json;;="}, status: 415, code: "1000"},
		"id too long":                  {path: "/test.echo", body: "{}", header: []string{"Idempotency-Key", long}, status: 400, code: "1001"},
		"quoted id too long":           {path: "/test.echo", body: "{}", header: []string{"Idempotency-Key", `"` + long + `"`}, status: 400, code: "1001"},
		"request id too long":          {path: "/test.echo", body: "{}", header: []string{"X-Request-Id", long}, status: 400, code: "1001"},
		"id not UTF-8":                 {path: "/test.echo", body: "{}", header: []string{"X-Request-Id", "a\xff"}, status: 400, code: "1001"},
		"trace too long":               {path: "/test.echo", body: "{}", header: []string{"X-Trace-Id", strings.Repeat("x", 129)}, status: 400, code: "1001"},
		"timeout not a number":         {path: "/test.echo?timeout_ms=soon", body: "{}", status: 400, code: "1001"},
		"timeout of nothing":           {path: "/test.echo?timeout_ms=0", body: "{}", status: 400, code: "1001"},
		"timeout too long":             {path: "/test.echo?timeout_ms=600001", body: "{}", status: 400, code: "1001"},
		"timeout too long, header":     {path: "/test.echo", body: "{}", header: []string{"X-Timeout-Ms", "99999999999999999999"}, status: 400, code: "1001"},
		"priority unknown":             {path: "/test.echo", body: "{}", header: []string{"X-Priority", "urgent"}, status: 400, code: "1001"},
		"command not UTF-8":            {path: "/%ff", body: "{}", status: 400, code: "1002"},
		"charset said in another case": {path: "/test.echo", body: "{}", header: []string{"Content-Type", "Application/JSON; Charset=UTF-8"}, status: 200},
	} {
		got := do(t, server, "POST", "/api/v1/commands"+c.path, c.body, c.header...)
		if got.status != c.status || got.code(t) != c.code {
			t.Errorf("%s: %d %s, want %d with code %q", name, got.status, got.body, c.status, c.code)
		}
		if c.path == "" && !strings.Contains(got.body, `"type":"response"`) {
			t.Errorf("%s: not answered by an envelope: %s", name, got.body)
		}
	}
	if n := router.reached(); n != 1 {
		t.Errorf("%d requests reached the router, want the good one", n)
	}
}

func TestChunkedBodyOverTheLimitIsRefused(t *testing.T) {
	t.Parallel()
	_, server := serve(t, Options{Limits: protocol.Limits{MaxBytes: 100}})
	body := struct{ *strings.Reader }{strings.NewReader(`{"text":"` + strings.Repeat("x", 500) + `"}`)} // hides its length
	resp, err := server.Client().Post(server.URL+"/api/v1/commands/test.echo", "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	router := &scripted{}
	_, server := serve(t, Options{Router: router, Authenticate: withKey})
	for _, path := range []string{"/api/v1/commands", "/api/v1/commands/test.echo"} {
		for key, want := range map[string]string{"": "2001", "Bearer wrong": "2001", "Bearer old": "2002", "Bearer broken": "2001"} {
			got := do(t, server, "POST", path, "not even JSON", "Authorization", key)
			if got.status != http.StatusUnauthorized || got.code(t) != want || got.header.Get("Www-Authenticate") == "" {
				t.Errorf("%s with %q: %d %s", path, key, got.status, got.body)
			}
			if strings.Contains(got.body, "10.0.0.7") {
				t.Errorf("%s with %q tells what is not the caller's: %s", path, key, got.body)
			}
		}
	}
	if router.reached() != 0 {
		t.Error("somebody unknown reached the router")
	}
	if got := do(t, server, "POST", "/api/v1/commands/test.echo", "{}", "Authorization", "Bearer good"); got.status != 200 {
		t.Errorf("with the key: %d", got.status)
	}
}

func TestErrorsBecomeStatusAndHeaders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    *protocol.Error
		status int
		retry  string
	}{
		{protocol.Errorf(protocol.UnknownCommand, "x"), 400, ""},
		{protocol.Errorf(protocol.NotFound, "x"), 404, ""},
		{protocol.Errorf(protocol.AgentOffline, "x"), 409, ""},
		{protocol.Errorf(protocol.TimedOut, "x"), 504, ""},
		{protocol.BusyFor(1200*time.Millisecond, "x"), 503, "2"},
		{protocol.Errorf(protocol.RateLimited, "x").With("retry_after_ms", 5000.0), 429, "5"},
		{protocol.Errorf(protocol.StoreUnavailable, "x"), 500, "1"},
		{protocol.Errorf(protocol.RateLimited, "x").With("retry_after_ms", -1), 429, "1"},
	} {
		router := &scripted{answer: func(_ context.Context, _ commands.Inbound, req *protocol.Request) *protocol.Response {
			return failed(req, c.err)
		}}
		_, server := serve(t, Options{Router: router})
		for path, body := range map[string]string{"": envelope("e-1", "test.echo", "{}"), "/test.echo": "{}"} {
			got := do(t, server, "POST", "/api/v1/commands"+path, body)
			if got.status != c.status || got.code(t) != string(c.err.Code) || got.header.Get("Retry-After") != c.retry {
				t.Errorf("%v at %q: %d, Retry-After %q, %s", c.err, path, got.status, got.header.Get("Retry-After"), got.body)
			}
		}
	}
}

func TestPartialResultAndWarningsAreTold(t *testing.T) {
	t.Parallel()
	router := &scripted{answer: func(_ context.Context, _ commands.Inbound, req *protocol.Request) *protocol.Response {
		resp := failed(req, protocol.Errorf(protocol.TimedOut, "half of it"))
		resp.Result = []byte(`{"done":1}`)
		resp.Metadata.Warnings = []string{"skill.call is now skill.invoke", "two\r\nlines €"}
		return resp
	}}
	_, server := serve(t, Options{Router: router})
	got := do(t, server, "POST", "/api/v1/commands/test.echo", "{}")
	if got.status != 504 || !strings.Contains(got.body, `"result":{"done":1}`) || got.code(t) != "4007" {
		t.Errorf("%d %s", got.status, got.body)
	}
	warnings := got.header.Values("X-Bridge-Warning")
	if len(warnings) != 2 || warnings[1] != "two??lines ?" {
		t.Errorf("warnings %q", warnings)
	}
}

func TestTooManyRequestsAreTurnedAway(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	router := &scripted{answer: func(_ context.Context, _ commands.Inbound, req *protocol.Request) *protocol.Response {
		entered <- struct{}{}
		<-leave
		return succeeded(req, "{}")
	}}
	_, server := serve(t, Options{Router: router, MaxRequests: 1})
	first := make(chan exchange)
	go func() { first <- do(t, server, "POST", "/api/v1/commands/test.echo", "{}") }()
	<-entered
	if got := do(t, server, "POST", "/api/v1/commands/test.echo", "{}"); got.code(t) != "4008" || got.header.Get("Retry-After") == "" {
		t.Errorf("the second: %d %s", got.status, got.body)
	}
	close(leave)
	if got := <-first; got.status != 200 {
		t.Errorf("the first: %d %s", got.status, got.body)
	}
}

func TestTraceparentMustBeWellFormed(t *testing.T) {
	t.Parallel()
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for value, want := range map[string]string{
		good:                               good,
		"":                                 "",
		good + "0":                         "",
		strings.ToUpper(good):              "",
		strings.Replace(good, "-", "_", 1): "",
		strings.Repeat("-", len(good)):     "",
	} {
		r, _ := http.NewRequest("POST", "/", nil)
		r.Header.Set("Traceparent", value)
		if got := traceparent(r); got != want {
			t.Errorf("traceparent %q = %q, want %q", value, got, want)
		}
	}
}

func FuzzRequestHeaders(f *testing.F) {
	f.Add("test.echo", "order-7", "id", "trace", "1500", "high", "timeout_ms=7", `{"a":1}`)
	f.Add("a/b", `""`, "\x00", "\xff", "-1", "", "timeout_ms=%zz", "[]")
	f.Fuzz(func(t *testing.T, command, key, id, trace, timeout, priority, query, body string) {
		a := &API{Options: Options{Limits: protocol.Limits{MaxBytes: 1 << 16, MaxDepth: 8}, Now: time.Now}}
		r, err := http.NewRequest("POST", "/", nil)
		if err != nil {
			t.Skip()
		}
		r.SetPathValue("command", command)
		r.URL.RawQuery = query
		for name, value := range map[string]string{
			"Idempotency-Key": key, "X-Request-Id": id, "X-Trace-Id": trace, "X-Timeout-Ms": timeout, "X-Priority": priority,
		} {
			r.Header.Set(name, value)
		}
		req, refused := a.requestOf(r)
		if refused != nil {
			if refused.Code != protocol.InvalidParameter && refused.Code != protocol.UnknownCommand {
				t.Fatalf("refused with %v", refused)
			}
			return
		}
		params, refused := a.params([]byte(body))
		if refused != nil {
			return
		}
		// What passes is an envelope that says what the headers said, and nothing else.
		req.Params = params
		decoded, err := protocol.DecodeRequest(req.Append(nil), protocol.Limits{MaxBytes: 1 << 20})
		if err != nil {
			switch protocol.CodeOf(err) { // names with limits of their own
			case protocol.MalformedEnvelope, protocol.InvalidParameter, protocol.UnknownCommand:
				return
			}
			t.Fatal(err)
		}
		if decoded.Command != req.Command || decoded.ID != req.ID || decoded.Metadata.Timeout != req.Metadata.Timeout {
			t.Fatalf("%+v became %+v", req, decoded)
		}
	})
}

func BenchmarkPostCommand(b *testing.B) {
	_, server := serve(b, Options{})
	body := `{"text":"` + strings.Repeat("x", 400) + `"}`
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if got := do(b, server, "POST", "/api/v1/commands/test.echo", body, "Idempotency-Key", strconv.Itoa(i)); got.status != 200 {
			b.Fatal(got.body)
		}
	}
}
