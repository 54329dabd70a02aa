package registry

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/freeport"
	"github.com/aibridge/aibridge/protocol"
)

// onWeb is the heating with HTTP endpoints.
func onWeb(endpoints ...string) string {
	list := `"` + strings.Join(endpoints, `","`) + `"`
	return `{"skill":` + strings.Replace(heating, `"capabilities"`, `"endpoints":[`+list+`],"capabilities"`, 1) + `}`
}

func allowPrivate(o *Options) { o.AllowPrivate = true }

// serve runs a skill on loopback.
func serve(t *testing.T, handler func(rw http.ResponseWriter, r *http.Request, q *protocol.Request)) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		q, err := protocol.DecodeRequest(body, protocol.Limits{})
		if err != nil {
			t.Errorf("the skill got %.200s: %v", body, err)
		}
		handler(rw, r, q)
	}))
	t.Cleanup(server.Close)
	return server
}

func success(rw http.ResponseWriter, q *protocol.Request, result string) {
	fmt.Fprintf(rw, `{"version":"0.6.3","id":%q,"type":"response","status":"success","result":%s}`, q.ID, result)
}

func TestWhatSkillsAnswerOverHTTP(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handler func(rw http.ResponseWriter, r *http.Request, q *protocol.Request)
		code    protocol.Code // "" for an answer
		detail  string
	}{
		"success": {func(rw http.ResponseWriter, _ *http.Request, q *protocol.Request) { success(rw, q, `{"litres":2}`) }, "", ""},
		"a failure": {func(rw http.ResponseWriter, _ *http.Request, q *protocol.Request) {
			fmt.Fprintf(rw, `{"id":%q,"status":"failed","error":{"code":"3006","message":"no"}}`, q.ID)
		}, protocol.InvalidState, "endpoint"},
		"a failure with the status to go with it": {func(rw http.ResponseWriter, _ *http.Request, q *protocol.Request) {
			rw.WriteHeader(http.StatusConflict)
			fmt.Fprintf(rw, `{"id":%q,"status":"failed","error":{"code":"3006","message":"no"}}`, q.ID)
		}, protocol.InvalidState, "endpoint"},
		"nothing": {func(http.ResponseWriter, *http.Request, *protocol.Request) {}, protocol.OutcomeUnknown, "reason"},
		"a page": {func(rw http.ResponseWriter, _ *http.Request, _ *protocol.Request) {
			_, _ = io.WriteString(rw, "<html>welcome</html>")
		}, protocol.OutcomeUnknown, "reason"},
		"somebody else's answer": {func(rw http.ResponseWriter, _ *http.Request, _ *protocol.Request) {
			_, _ = io.WriteString(rw, `{"id":"x","status":"success","result":{}}`)
		}, protocol.OutcomeUnknown, "param_name"},
		"a result that breaks its schema": {func(rw http.ResponseWriter, _ *http.Request, q *protocol.Request) {
			success(rw, q, `{"litres":"two"}`)
		}, protocol.OutcomeUnknown, "param_name"},
		"not found": {func(rw http.ResponseWriter, r *http.Request, _ *protocol.Request) { http.NotFound(rw, r) }, protocol.TargetUnavailable, "http_status"},
		"unavailable": {func(rw http.ResponseWriter, _ *http.Request, _ *protocol.Request) {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}, protocol.TargetUnavailable, "http_status"},
		"internal error": {func(rw http.ResponseWriter, _ *http.Request, _ *protocol.Request) {
			rw.WriteHeader(http.StatusInternalServerError)
		}, protocol.OutcomeUnknown, "http_status"},
		"a flood": {func(rw http.ResponseWriter, _ *http.Request, _ *protocol.Request) {
			for range 64 {
				if _, err := rw.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}, protocol.OutcomeUnknown, "reason"},
		"a hang-up": {func(http.ResponseWriter, *http.Request, *protocol.Request) { panic(http.ErrAbortHandler) }, protocol.OutcomeUnknown, "reason"},
		"a hang-up in the middle": {func(rw http.ResponseWriter, _ *http.Request, _ *protocol.Request) {
			_, _ = io.WriteString(rw, `{"id":`)
			rw.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, protocol.OutcomeUnknown, "reason"},
		"silence": {func(_ http.ResponseWriter, r *http.Request, _ *protocol.Request) { <-r.Context().Done() }, protocol.TimedOut, ""},
		"a trickle": {func(rw http.ResponseWriter, r *http.Request, _ *protocol.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(rw, " ")
				rw.(http.Flusher).Flush()
				time.Sleep(10 * time.Millisecond)
			}
		}, protocol.TimedOut, ""},
		"a redirect on the same host": {func(rw http.ResponseWriter, r *http.Request, q *protocol.Request) {
			if r.URL.Path == "/" {
				http.Redirect(rw, r, "/moved", http.StatusTemporaryRedirect)
				return
			}
			success(rw, q, `{"litres":2}`)
		}, "", ""},
		"a redirect that loses the body": {func(rw http.ResponseWriter, r *http.Request, _ *protocol.Request) {
			http.Redirect(rw, r, "/moved", http.StatusFound)
		}, protocol.OutcomeUnknown, "reason"},
		"a redirect for ever": {func(rw http.ResponseWriter, r *http.Request, _ *protocol.Request) {
			http.Redirect(rw, r, "/again", http.StatusTemporaryRedirect)
		}, protocol.OutcomeUnknown, "reason"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			server := serve(t, func(rw http.ResponseWriter, r *http.Request, q *protocol.Request) {
				asked.Add(1)
				test.handler(rw, r, q)
			})
			w := newWorld(t, allowPrivate)
			w.do(alice, "skill.register", onWeb(server.URL+"/"), nil)
			timeout := time.Minute
			if test.code == protocol.TimedOut {
				timeout = 100 * time.Millisecond
			}
			r := w.ask(question{who: alice, command: "skill.invoke", params: bleed, timeout: timeout})
			for test.code == protocol.TimedOut && asked.Load() == 0 && timeout < time.Minute { // it was over before anything was asked
				timeout *= 2
				r = w.ask(question{who: alice, command: "skill.invoke", params: bleed, timeout: timeout})
			}
			if test.code == "" {
				var got InvokeSkillResult
				w.must(r, &got)
				if string(got.Data) != `{"litres":2}` || got.AgentID != "" {
					t.Errorf("got %+v", got)
				}
				return
			}
			err := w.failed(r, test.code)
			if _, ok := err.Details[test.detail]; test.detail != "" && !ok {
				t.Errorf("details %v, want %s", err.Details, test.detail)
			}
		})
	}
}

func TestARedirectToAnotherHostIsNotFollowed(t *testing.T) {
	t.Parallel()
	var called atomic.Int32
	other := serve(t, func(rw http.ResponseWriter, _ *http.Request, q *protocol.Request) {
		called.Add(1)
		success(rw, q, `{"litres":2}`)
	})
	for _, to := range []string{other.URL, strings.Replace(other.URL, "http://", "https://", 1)} {
		first := serve(t, func(rw http.ResponseWriter, r *http.Request, _ *protocol.Request) {
			http.Redirect(rw, r, to, http.StatusTemporaryRedirect)
		})
		w := newWorld(t, allowPrivate)
		w.do(alice, "skill.register", onWeb(first.URL), nil)
		err := w.fails(alice, "skill.invoke", bleed, protocol.OutcomeUnknown)
		if reason := fmt.Sprint(err.Details["reason"]); !strings.Contains(reason, "another host") {
			t.Errorf("reason %q", reason)
		}
	}
	if called.Load() != 0 {
		t.Errorf("the other host was called %d times", called.Load())
	}
}

func TestTheNextEndpointIsTriedIfThatDoesNoHarm(t *testing.T) {
	t.Parallel()
	var broken, good atomic.Int32
	breaks := serve(t, func(rw http.ResponseWriter, _ *http.Request, _ *protocol.Request) {
		broken.Add(1)
		rw.WriteHeader(http.StatusInternalServerError)
	})
	works := serve(t, func(rw http.ResponseWriter, _ *http.Request, q *protocol.Request) {
		good.Add(1)
		success(rw, q, `{"celsius":20}`)
	})
	closed := freeport.Address()
	w := newWorld(t, allowPrivate)

	w.do(alice, "skill.register", onWeb("http://"+closed, works.URL), nil)
	w.do(alice, "skill.invoke", bleed, nil) // nothing was sent to the first
	w.do(alice, "skill.register", onWeb(breaks.URL, works.URL), nil)
	w.do(alice, "skill.invoke", set, nil)
	w.fails(alice, "skill.invoke", bleed, protocol.OutcomeUnknown)
	if broken.Load() != 2 || good.Load() != 2 {
		t.Errorf("the broken one was asked %d times, the good one %d", broken.Load(), good.Load())
	}
	w.do(alice, "skill.register", onWeb("http://"+closed), nil)
	w.fails(alice, "skill.invoke", bleed, protocol.TargetUnavailable)
}

func TestASkillWithAnAgentOnMQTTIsNotCalledOverHTTP(t *testing.T) {
	t.Parallel()
	server := serve(t, func(rw http.ResponseWriter, _ *http.Request, q *protocol.Request) { success(rw, q, `{"celsius":1}`) })
	w := newWorld(t, allowPrivate)
	skill := strings.Replace(heating, `"capabilities"`, `"endpoints":["`+server.URL+`"],"capabilities"`, 1)
	d := w.device("boiler", skill, echo)
	var got InvokeSkillResult
	w.do(alice, "skill.invoke", set, &got)
	if got.AgentID != "boiler" {
		t.Errorf("answered by %q", got.AgentID)
	}
	d.die()
	w.fails(alice, "skill.invoke", set, protocol.AgentOffline)

	// An agent that lives by its heartbeats is called where it says.
	w.do(alice, "agent.register", `{"agent_id":"web","type":"end_agent","endpoints":["`+server.URL+`"]}`, nil)
	w.do(alice, "skill.register", `{"agent_id":"web","skill":`+strings.Replace(skill, "heating", "web", 1)+`}`, nil)
	w.do(alice, "skill.invoke", strings.Replace(set, "heating", "web", 1), nil)
}

func TestPrivateAddressesAreCalledOnlyWhenConfigured(t *testing.T) {
	t.Parallel()
	var called atomic.Int32
	server := serve(t, func(rw http.ResponseWriter, _ *http.Request, q *protocol.Request) {
		called.Add(1)
		success(rw, q, `{"litres":2}`)
	})
	port := server.Listener.Addr().(*net.TCPAddr).Port
	w := newWorld(t)
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "127.1", "0x7f000001", "2130706433", "[::1]", "0.0.0.0", "[::]"} {
		w.do(alice, "skill.register", onWeb(fmt.Sprintf("http://%s:%d/", host, port)), nil)
		err := w.fails(alice, "skill.invoke", bleed, protocol.TargetUnavailable)
		if strings.Contains(err.Message, "127.0.0.1:") && !strings.Contains(host, "127.0.0.1") {
			t.Errorf("%s: the error tells an address: %s", host, err.Message)
		}
	}
	if called.Load() != 0 {
		t.Errorf("called %d times", called.Load())
	}
	w = newWorld(t, allowPrivate)
	w.do(alice, "skill.register", onWeb(fmt.Sprintf("http://localhost:%d/", port)), nil)
	w.do(alice, "skill.invoke", bleed, nil)
}
