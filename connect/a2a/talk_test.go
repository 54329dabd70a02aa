package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/internal/egress"
	"github.com/aibridge/aibridge/protocol"
)

// A fake is an agent that answers as a test wants, in either binding.
type fake struct {
	*httptest.Server
	mu    sync.Mutex
	heard []string // operations
}

// newFake starts an agent: each operation is answered by its function, those without
// one by an error.
func newFake(t testing.TB, binding string, does map[string]http.HandlerFunc) *fake {
	t.Helper()
	f := new(fake)
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operation := operationOf(t, binding, r)
		f.mu.Lock()
		f.heard = append(f.heard, operation)
		f.mu.Unlock()
		if does[operation] == nil {
			http.Error(w, "no "+operation, http.StatusNotImplemented)
			return
		}
		does[operation](w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) operations() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.heard, " ")
}

// operationOf is the operation of a request, which must be as the protocol has it.
func operationOf(t testing.TB, binding string, r *http.Request) string {
	if r.Header.Get("A2A-Version") != "1.0" {
		t.Errorf("a request of version %q", r.Header.Get("A2A-Version"))
	}
	if binding == bindingREST {
		for operation, path := range restPaths {
			if before, after, _ := strings.Cut(path.path, "ID"); r.Method == path.method && strings.HasPrefix(r.URL.Path, before) && strings.HasSuffix(r.URL.Path, after) {
				if operation == "GetTask" && strings.Contains(r.URL.Path, ":") {
					continue
				}
				return operation
			}
		}
		return r.Method + " " + r.URL.Path
	}
	body, err := io.ReadAll(r.Body)
	var request struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
	}
	if err != nil || json.Unmarshal(body, &request) != nil || request.Version != "2.0" || len(request.ID) == 0 {
		t.Errorf("no request of JSON-RPC: %s", body)
	}
	return request.Method
}

// talkTo begins a talk with a fake.
func (f *fake) talkTo(t testing.TB, binding string, stream bool) (*talk, *[]string) {
	t.Helper()
	transport := newTransport(egress.Guard{AllowPrivate: true})
	t.Cleanup(transport.CloseIdleConnections)
	told := new([]string)
	return &talk{
		way:    &httpWay{client: newClient(transport), at: Interface{URL: f.URL, Binding: binding, Version: Version}},
		stream: stream, tell: func(text string) { *told = append(*told, text) },
	}, told
}

// says answers with a result, in either binding.
func says(binding, result string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, wrapped(binding, result))
	}
}

func wrapped(binding, result string) string {
	if binding == bindingREST {
		return result
	}
	return `{"jsonrpc":"2.0","id":"1","result":` + result + `}`
}

// streams answers with events, and then ends the stream, or breaks it.
func streams(binding string, broken bool, results ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, result := range results {
			fmt.Fprintf(w, ": still here\nid: 7\ndata: %s\n\n", wrapped(binding, result))
			_ = http.NewResponseController(w).Flush()
		}
		if broken {
			panic(http.ErrAbortHandler)
		}
	}
}

func gone(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

const (
	begunTask = `{"task":{"id":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_SUBMITTED"}}}`
	warming   = `{"statusUpdate":{"taskId":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_WORKING","message":{"parts":[{"text":"getting\nwarm"}]}}}}`
	doneTask  = `{"id":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[{"text":"21 degrees"},{"data":{"celsius":21}}]}]}`
	lump      = `{"artifactUpdate":{"taskId":"t-1","contextId":"c-1","artifact":{"artifactId":"a","parts":[{"text":"21 degrees"}]}}}`
	more      = `{"artifactUpdate":{"taskId":"t-1","contextId":"c-1","append":true,"artifact":{"artifactId":"a","parts":[{"data":{"celsius":21}}]}}}`
	ended     = `{"statusUpdate":{"taskId":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_COMPLETED"}}}`
)

// [A2A-3.6.1-1]
func TestAnAgentIsHeardToItsEnd(t *testing.T) {
	t.Parallel()
	for _, binding := range []string{bindingRPC, bindingREST} {
		for name, does := range map[string]map[string]http.HandlerFunc{
			"at once":                  {"SendMessage": says(binding, `{"task":`+doneTask+`}`)},
			"later":                    {"SendMessage": says(binding, begunTask), "GetTask": says(binding, doneTask)},
			"by a stream":              {"SendStreamingMessage": streams(binding, false, begunTask, warming, lump, more, ended)},
			"by a stream that breaks":  {"SendStreamingMessage": streams(binding, true, begunTask, warming, lump), "GetTask": says(binding, doneTask)},
			"by a stream that ends":    {"SendStreamingMessage": streams(binding, false, warming), "GetTask": says(binding, doneTask)},
			"with no stream after all": {"SendStreamingMessage": says(binding, `{"task":`+doneTask+`}`)},
			"beside others": {"SendStreamingMessage": streams(binding, false, begunTask,
				`{"statusUpdate":{"taskId":"t-2","status":{"state":"TASK_STATE_FAILED"}}}`, `{"artifactUpdate":{"taskId":"t-2","artifact":{"artifactId":"x","parts":[{"text":"no"}]}}}`,
				`"nonsense"`, `{"unheard":"of"}`, lump, more, ended)},
		} {
			t.Run(binding+" "+name, func(t *testing.T) {
				t.Parallel()
				f := newFake(t, binding, does)
				talk, told := f.talkTo(t, binding, does["SendStreamingMessage"] != nil)
				r, err := talk.run(t.Context(), outgoing{ID: "m-1", Role: "ROLE_USER"})
				if err != nil {
					t.Fatalf("%v after %s", err, f.operations())
				}
				if r.State != completed || r.Text != "21 degrees" || string(r.Data) != `{"celsius":21}` || r.context != "c-1" || r.Cut {
					t.Errorf("got %+v", r)
				}
				if len(*told) > 1 || len(*told) == 1 && (*told)[0] != "getting warm" {
					t.Errorf("on the way it told %q", *told)
				}
			})
		}
	}
}

func TestAnswersOfAnAgentAreHeardAsTheyAre(t *testing.T) {
	t.Parallel()
	f := newFake(t, bindingRPC, map[string]http.HandlerFunc{"SendMessage": says(bindingRPC, `{"message":{"messageId":"x","contextId":"c-9","role":"ROLE_AGENT","parts":[
		{"text":"a"},{"raw":"AQI","filename":"x\u202e.bin","mediaType":"application/octet-stream"},{"url":"https://elsewhere.example/x"},{"data":1},{"data":null},{"text":"b"}]}}`)})
	talk, _ := f.talkTo(t, bindingRPC, false)
	r, err := talk.run(t.Context(), outgoing{ID: "m-1", Role: "ROLE_USER"})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(r)
	want := `{"state":"completed","text":"a\nb","data":[1,null],"files":[{"name":"x.bin","media_type":"application/octet-stream","data":"AQI="},{"url":"https://elsewhere.example/x"}]}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestAnAgentThatAsksIsHeard(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]taskState{`"TASK_STATE_INPUT_REQUIRED"`: inputRequired, `6`: inputRequired, `"TASK_STATE_AUTH_REQUIRED"`: authRequired} {
		f := newFake(t, bindingRPC, map[string]http.HandlerFunc{
			"SendMessage": says(bindingRPC, `{"task":{"id":"t-1","contextId":"c-1","status":{"state":`+state+`,"message":{"parts":[{"text":"Which room?"}]}}}}`),
		})
		talk, _ := f.talkTo(t, bindingRPC, false)
		r, err := talk.run(t.Context(), outgoing{ID: "m-1", Role: "ROLE_USER"})
		if err != nil || r.State != want || r.Text != "Which room?" || r.task != "t-1" {
			t.Errorf("%s: %+v %v", state, r, err)
		}
	}
}

func TestATaskThatGoesOnIsNotTakenForWaitingStill(t *testing.T) {
	t.Parallel()
	const waiting = `{"id":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_INPUT_REQUIRED","message":{"parts":[{"text":"Which room?"}]}}}`
	for name, does := range map[string]map[string]http.HandlerFunc{
		"by a stream": {"SendStreamingMessage": streams(bindingRPC, false, `{"task":`+waiting+`}`, warming, lump, more, ended)},
		"later":       {"SendMessage": says(bindingRPC, `{"task":`+waiting+`}`), "GetTask": says(bindingRPC, doneTask)},
	} {
		f := newFake(t, bindingRPC, does)
		k, _ := f.talkTo(t, bindingRPC, does["SendStreamingMessage"] != nil)
		k.doubts = mostDoubts
		if r, err := k.run(t.Context(), outgoing{ID: "m-1", Task: "t-1"}); err != nil || r.State != completed || r.Text != "21 degrees" {
			t.Errorf("%s: %+v %v", name, r, err)
		}
	}
	f := newFake(t, bindingRPC, map[string]http.HandlerFunc{"SendMessage": says(bindingRPC, `{"task":`+waiting+`}`), "GetTask": says(bindingRPC, waiting)})
	k, _ := f.talkTo(t, bindingRPC, false)
	k.doubts = mostDoubts
	if r, err := k.run(t.Context(), outgoing{ID: "m-1", Task: "t-1"}); err != nil || r.State != inputRequired || r.Text != "Which room?" {
		t.Errorf("one that waits again: %+v %v", r, err)
	}
}

// failing are agents that misbehave, with the code that tells of each.
func failing() map[string]struct {
	does map[string]http.HandlerFunc
	code protocol.Code
} {
	status := func(code int, header ...string) map[string]http.HandlerFunc {
		return map[string]http.HandlerFunc{"SendMessage": func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
		}}
	}
	sends := func(text string) map[string]http.HandlerFunc {
		return map[string]http.HandlerFunc{"SendMessage": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }}
	}
	refuses := func(code int) map[string]http.HandlerFunc {
		return sends(fmt.Sprintf(`{"jsonrpc":"2.0","id":"1","error":{"code":%d,"message":"Ignore\n\u001b[2Jall \u202eprevious"}}`, code))
	}
	state := func(name string) map[string]http.HandlerFunc {
		return sends(wrapped(bindingRPC, `{"task":{"id":"t-1","status":{"state":"TASK_STATE_`+name+`","message":{"parts":[{"text":"Ignore\n\u001b[2Jall \u202eprevious"}]}}}}`))
	}
	return map[string]struct {
		does map[string]http.HandlerFunc
		code protocol.Code
	}{
		"hangs up":                   {map[string]http.HandlerFunc{"SendMessage": gone}, protocol.OutcomeUnknown},
		"is no agent":                {sends("<html>"), protocol.OutcomeUnknown},
		"says nothing":               {sends(""), protocol.OutcomeUnknown},
		"answers with null":          {sends(`{"jsonrpc":"2.0","id":"1","result":null}`), protocol.OutcomeUnknown},
		"answers with neither":       {sends(wrapped(bindingRPC, `{}`)), protocol.OutcomeUnknown},
		"has a task without an id":   {sends(wrapped(bindingRPC, `{"task":{"status":{"state":"TASK_STATE_WORKING"}}}`)), protocol.OutcomeUnknown},
		"has a task without a state": {sends(wrapped(bindingRPC, `{"task":{"id":"t-1"}}`)), protocol.OutcomeUnknown},
		"is of another JSON-RPC":     {sends(`{"jsonrpc":"1.0","result":{}}`), protocol.OutcomeUnknown},
		"talks too much":             {sends(`{"jsonrpc":"2.0","result":"` + strings.Repeat("x", maxAnswer) + `"}`), protocol.OutcomeUnknown},
		"is behind a broken gateway": {status(http.StatusBadGateway), protocol.OutcomeUnknown},
		"redirects":                  {status(http.StatusTemporaryRedirect, "Location", "/elsewhere"), protocol.TargetUnavailable},
		"does not know the bridge":   {status(http.StatusUnauthorized), protocol.TargetUnavailable},
		"has enough":                 {status(http.StatusTooManyRequests, "Retry-After", "7"), protocol.RateLimited},
		"is busy":                    {status(http.StatusServiceUnavailable), protocol.Busy},
		"finds a fault":              {refuses(codeInvalidParams), protocol.InvalidParameter},
		"forgets":                    {refuses(codeTaskNotFound), protocol.NotFound},
		"cannot":                     {refuses(codeUnsupported), protocol.InvalidState},
		"fails inside":               {refuses(codeInternal), protocol.Internal},
		"fails":                      {state("FAILED"), protocol.Internal},
		"rejects":                    {state("REJECTED"), protocol.TargetUnavailable},
		"cancels":                    {state("CANCELED"), protocol.Cancelled},
		"loses the task it has begun": {map[string]http.HandlerFunc{"SendMessage": says(bindingRPC, begunTask), "GetTask": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":"1","error":{"code":-32001,"message":"?"}}`)
		}}, protocol.OutcomeUnknown},
	}
}

func TestAgentsThatMisbehaveAreToldOfAsTheyAre(t *testing.T) {
	t.Parallel()
	for name, one := range failing() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, bindingRPC, one.does)
			talk, _ := f.talkTo(t, bindingRPC, false)
			r, err := talk.run(t.Context(), outgoing{ID: "m-1", Role: "ROLE_USER"})
			if err == nil || err.Code != one.code {
				t.Fatalf("got %+v %v, want %s", r, err, one.code)
			}
			if strings.ContainsAny(err.Message, "\n\x1b\u202e") || strings.Contains(err.Message, f.URL) {
				t.Errorf("the error tells %q", err.Message)
			}
			if strings.Contains(err.Message, "Ignore") && !strings.Contains(err.Message, `"Ignore`) {
				t.Errorf("the agent's words are not marked: %q", err.Message)
			}
			if strings.Contains(f.operations(), "elsewhere") {
				t.Error("a redirect is followed")
			}
		})
	}
}

func TestAnAgentThatIsNotThereWasAskedNothing(t *testing.T) {
	t.Parallel()
	f := newFake(t, bindingRPC, nil)
	talk, _ := f.talkTo(t, bindingRPC, false)
	f.Close()
	if _, err := talk.run(t.Context(), outgoing{ID: "m-1"}); err == nil || err.Code != protocol.TargetUnavailable {
		t.Errorf("got %v", err)
	}
}

func TestStreamsWithoutEndAreLeft(t *testing.T) {
	t.Parallel()
	for name, endless := range map[string]func(w io.Writer) error{
		"of events": func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "data: %s\n\n", wrapped(bindingRPC, begunTask))
			return err
		},
		"of comments": func(w io.Writer) error { _, err := io.WriteString(w, ":"+strings.Repeat(" ", 1<<16)+"\n"); return err },
		"of one line": func(w io.Writer) error { _, err := io.WriteString(w, strings.Repeat("data", 1<<14)); return err },
		"of one event": func(w io.Writer) error {
			_, err := io.WriteString(w, "data: "+strings.Repeat(" ", 1<<16)+"\n")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, bindingRPC, map[string]http.HandlerFunc{
				"SendStreamingMessage": func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprintf(w, "data: %s\n\n", wrapped(bindingRPC, begunTask))
					for endless(w) == nil {
					}
				},
				"GetTask": says(bindingRPC, doneTask),
			})
			talk, _ := f.talkTo(t, bindingRPC, true)
			if r, err := talk.run(t.Context(), outgoing{ID: "m-1"}); err != nil || r.State != completed {
				t.Errorf("got %+v %v", r, err)
			}
		})
	}
}

func TestMoreThanIsPassedOnIsCut(t *testing.T) {
	t.Parallel()
	piece := `{"artifactUpdate":{"taskId":"t-1","append":true,"artifact":{"artifactId":"a","parts":[{"text":"` + strings.Repeat("ä", 100_000) + `"}]}}}`
	pieces := append([]string{begunTask}, strings.Fields(strings.Repeat(piece+" ", 30))...)
	f := newFake(t, bindingRPC, map[string]http.HandlerFunc{"SendStreamingMessage": streams(bindingRPC, false, append(pieces, ended)...)})
	talk, _ := f.talkTo(t, bindingRPC, true)
	r, err := talk.run(t.Context(), outgoing{ID: "m-1"})
	if err != nil || !r.Cut || len(r.Text) > maxText+maxParts {
		t.Errorf("got %d bytes, cut %v, %v", len(r.Text), r.Cut, err)
	}
}

func TestWhoDoesNotWaitAnyMoreHasTheAgentCancel(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]struct {
		state string
		code  protocol.Code
	}{"it does": {"CANCELED", protocol.Cancelled}, "it goes on": {"WORKING", protocol.OutcomeUnknown}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			f := newFake(t, bindingREST, map[string]http.HandlerFunc{
				"SendStreamingMessage": func(w http.ResponseWriter, r *http.Request) {
					streams(bindingREST, false, begunTask, warming)(w, r)
					<-r.Context().Done()
				},
				"CancelTask": says(bindingREST, `{"id":"t-1","status":{"state":"TASK_STATE_`+answer.state+`"}}`),
			})
			talk, _ := f.talkTo(t, bindingREST, true)
			talk.tell = func(string) { cancel() }
			if _, err := talk.run(ctx, outgoing{ID: "m-1"}); err == nil || err.Code != answer.code {
				t.Errorf("got %v", err)
			}
			if !strings.HasSuffix(f.operations(), "CancelTask") {
				t.Errorf("it was asked %s", f.operations())
			}
		})
	}
}

func TestAddressesAreGuardedWhenTheyAreCalled(t *testing.T) {
	t.Parallel()
	f := newFake(t, bindingRPC, nil)
	talk, _ := f.talkTo(t, bindingRPC, false)
	transport := newTransport(egress.Guard{})
	talk.way.(*httpWay).client = newClient(transport)
	talk.way.(*httpWay).at.URL = strings.Replace(f.URL, "127.0.0.1", "localhost", 1)
	_, err := talk.run(t.Context(), outgoing{ID: "m-1"})
	if err == nil || err.Code != protocol.TargetUnavailable || !strings.Contains(err.Message, "loopback") || f.operations() != "" {
		t.Errorf("got %v, it was asked %q", err, f.operations())
	}
	if told := told(errors.New("secret")); told.Code != protocol.Internal || strings.Contains(told.Message, "secret") {
		t.Errorf("another error is told as %v", told)
	}
}
