package registry

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

var update = flag.Bool("update", false, "write the golden files anew")

// A transcript is a conversation between a caller, the bridge and an agent.
type transcript struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (c *transcript) note(heading string, payload []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(&c.b, "%s\n", heading)
	if len(payload) > 0 {
		if json.Indent(&c.b, payload, "", "  ") != nil {
			c.b.Write(payload)
		}
		c.b.WriteByte('\n')
	}
	c.b.WriteByte('\n')
}

// compare checks the transcript against its golden file.
func (c *transcript) compare(t *testing.T, name string) {
	t.Helper()
	path := filepath.Join("testdata", "conversations", name+".txt")
	if *update {
		if err := os.WriteFile(path, c.b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.b.String(); got != string(want) {
		t.Errorf("%s differs; -update writes it anew:\n%s", path, got)
	}
}

// heading describes how a message of the bridge travels.
func (m *sent) heading() string {
	var b strings.Builder
	fmt.Fprintf(&b, "bridge → %s\n", m.Topic)
	fmt.Fprintf(&b, "  QoS %d", m.QoS)
	if m.Retain {
		b.WriteString(", retained")
	}
	if m.Expiry > 0 {
		fmt.Fprintf(&b, ", message expiry %v", m.Expiry)
	}
	if m.ContentType != "" {
		fmt.Fprintf(&b, ", content type %s", m.ContentType)
	}
	if m.ResponseTopic != "" {
		fmt.Fprintf(&b, "\n  response topic %s, correlation data %s", m.ResponseTopic, m.CorrelationData)
	}
	for _, p := range m.UserProperties {
		if p.Key == "caller" { // another one in every process
			p.Value = "…"
		}
		fmt.Fprintf(&b, "\n  user property %s: %s", p.Key, p.Value)
	}
	return b.String()
}

func TestConversationsWithAnAgent(t *testing.T) {
	const answer = `{"version":"0.6.3","id":%q,"timestamp":946684800250,"type":"response","status":"success","result":{"litres":2},"error":null,"metadata":{"sender_id":"boiler"}}`
	event := func(name, data string) string {
		return `{"version":"0.6.3","id":%q,"timestamp":946684800250,"type":"event","event":"` + name + `","seq":1,"data":` + data + `,"metadata":{"sender_id":"boiler"}}`
	}
	for name, says := range map[string][]string{
		"success":  {answer},
		"failure":  {`{"version":"0.6.3","id":%q,"timestamp":946684800250,"type":"response","status":"failed","result":{},"error":{"code":"3006","message":"the valve is open","details":{"valve":7}},"metadata":{"sender_id":"boiler"}}`},
		"progress": {event("task.accepted", `{}`), event("task.progress", `{"percent":40,"message":"draining"}`), event("task.delta", `{"text":"gluck"}`), answer},
		"rejected": {event("task.rejected", `{"reason":"too hot to touch"}`)},
		"timeout":  {event("task.accepted", `{}`)},
		"lenient":  {`{"version":"0.6.0","response_to":%q,"status":"error","error":{"code":4008,"message":"busy","details":{"retry_after_ms":500}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.close()
				ids := 0
				w.newID = func() string { ids++; return fmt.Sprintf("00000000-0000-4000-8000-%012d", ids) }
				var c transcript
				d := w.device("boiler", heating, nil)
				d.answer = func(d *device, r *protocol.Request) {
					for _, text := range says {
						payload := fmt.Sprintf(text, r.ID)
						c.note("agent → aibridge/agent/boiler/response", []byte(payload))
						d.say(payload)
					}
				}
				synctest.Wait()
				w.mqtt.mu.Lock()
				w.mqtt.sent = nil
				w.mqtt.mu.Unlock()
				ids = 0

				c.note("caller → skill.invoke", []byte(bleed))
				r := w.ask(question{who: alice, command: "skill.invoke", params: bleed, timeout: 10 * time.Second})
				synctest.Wait()
				asked := w.mqtt.on("aibridge/agent/boiler/request")
				c.mu.Lock()
				spoken := c.b.String()
				c.b.Reset()
				c.mu.Unlock()
				for i, m := range asked {
					if i == 0 {
						caller, rest, _ := strings.Cut(spoken, "\n\n")
						c.b.WriteString(caller + "\n\n")
						c.note(m.heading(), m.Payload)
						c.b.WriteString(rest)
						continue
					}
					c.note(m.heading(), m.Payload)
				}
				c.note("bridge → caller", r.Append(nil))
				c.compare(t, name)
			})
		})
	}
}

func TestConversationsAboutPresence(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		w.newID = func() string { return "00000000-0000-4000-8000-000000000001" }
		d := w.connect("boiler", alice, echo)
		d.register()
		synctest.Wait()
		w.do(alice, "skill.register", `{"agent_id":"boiler","skill":`+heating+`}`, nil)
		synctest.Wait()
		time.Sleep(time.Minute)
		d.die()
		synctest.Wait()
		w.do(alice, "agent.unregister", `{"agent_id":"boiler"}`, nil)
		synctest.Wait()
		var c transcript
		w.mqtt.mu.Lock()
		for _, m := range w.mqtt.sent {
			c.note(m.heading(), m.Payload)
		}
		w.mqtt.mu.Unlock()
		c.compare(t, "presence")
	})
}

func TestAConversationOverHTTP(t *testing.T) {
	t.Parallel()
	var c transcript
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		q, err := protocol.DecodeRequest(body, protocol.Limits{})
		if err != nil {
			t.Error(err)
			return
		}
		left := q.Metadata.Timeout
		q.Timestamp, q.Metadata.Timeout = 946684800000, 10*time.Second
		c.note(fmt.Sprintf("bridge → %s %s\n  Content-Type: %s\n  Accept: %s\n  User-Agent: %s", r.Method, r.URL.Path,
			r.Header.Get("Content-Type"), r.Header.Get("Accept"), r.Header.Get("User-Agent")), q.Append(nil))
		if left <= 0 || left > 10*time.Second {
			t.Errorf("timeout %v", left)
		}
		answer := fmt.Sprintf(`{"version":"0.6.3","id":%q,"timestamp":946684800250,"type":"response","status":"success","result":{"litres":2},"error":null,"metadata":{}}`, q.ID)
		c.note("skill → 200", []byte(answer))
		_, _ = io.WriteString(rw, answer)
	}))
	defer server.Close()
	w := newWorld(t, func(o *Options) { o.AllowPrivate = true })
	w.newID = func() string { return "00000000-0000-4000-8000-000000000001" }
	skill := strings.Replace(heating, `"capabilities"`, `"endpoints":["`+server.URL+`/skill"],"capabilities"`, 1)
	w.do(alice, "skill.register", `{"skill":`+skill+`}`, nil)
	w.must(w.ask(question{who: alice, command: "skill.invoke", params: bleed, timeout: 10 * time.Second}), nil)
	c.compare(t, "http")
}
