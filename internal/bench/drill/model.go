package drill

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A script is the instruction to a model: to have an agent run the steps of a job, one
// after the other, by a tool.
type script struct {
	id    string
	steps int
	tool  string // name of the tool for models
}

// String is the job in the words of a question.
func (s script) String() string {
	return fmt.Sprintf("drill-job %s steps=%d tool=%s", s.id, s.steps, s.tool)
}

var scriptWords = regexp.MustCompile(`drill-job ([a-z0-9-]+) steps=([0-9]) tool=([a-z0-9_-]+)`)

var stepName = regexp.MustCompile(`-step-[0-9]$`)

// stepOf is the id of a step of a job, by which the agent counts executions.
func stepOf(id string, number int) string { return fmt.Sprintf("%s-step-%d", id, number) }

// thinks is the time that a model takes for an answer: long enough that faults come
// upon works under way.
const thinks = 200 * time.Millisecond

// A model simulates a language model with an API like OpenAI's. Its answers depend on
// the shown conversation alone. It records its calls of tools and their results.
type model struct {
	record *recorder

	mu    sync.Mutex
	noted map[Event]bool
}

func newModel(record *recorder) *model { return &model{record: record, noted: make(map[Event]bool)} }

// A chatMessage is a message of a conversation.
type chatMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"` // a text, or a list of parts
	ToolCall  string          `json:"tool_call_id"`
	ToolCalls []chatCall      `json:"tool_calls"`
}

type chatCall struct {
	ID       string       `json:"id"`
	Index    int          `json:"index"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

func (m *chatMessage) text() string {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return text
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(m.Content, &parts) // other content is ignored
	for _, p := range parts {
		text += p.Text
	}
	return text
}

// ServeHTTP answers one question.
func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var question struct {
		Messages []chatMessage `json:"messages"`
	}
	body := http.MaxBytesReader(w, r.Body, 4<<20)
	if !strings.HasSuffix(r.URL.Path, "/chat/completions") || json.NewDecoder(body).Decode(&question) != nil {
		http.NotFound(w, r)
		return
	}
	if !pause(r.Context(), thinks) {
		return
	}
	seen := readConversation(question.Messages)
	for _, step := range seen.order {
		m.note(Event{Kind: Heard, ID: step, Code: heardCode(step, seen.heard[step])})
	}
	call, said := seen.next()
	if call == nil {
		writeTurn(w, map[string]any{"content": said}, "stop")
		return
	}
	if step, ok := stepAsked(call.Arguments); ok {
		m.note(Event{Kind: Wanted, ID: step})
	}
	id := fmt.Sprintf("call-%d", len(question.Messages))
	writeTurn(w, map[string]any{"tool_calls": []chatCall{{ID: id, Type: "function", Function: *call}}}, "tool_calls")
}

// note records an event, once: a model is shown its earlier results in every question.
func (m *model) note(e Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.noted[e] {
		m.noted[e] = true
		m.record.add(e)
	}
}

func writeTurn(w http.ResponseWriter, delta map[string]any, reason string) {
	w.Header().Set("Content-Type", "text/event-stream")
	text, _ := json.Marshal(delta) // of strings
	_, _ = fmt.Fprintf(w, "data: {\"model\":\"drill\",\"choices\":[{\"delta\":%s}]}\n\n", text)
	_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\""+reason+
		"\"}],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":5}}\n\ndata: [DONE]\n\n")
}

// A conversation is the state that a model derives from the messages.
type conversation struct {
	script  script
	node    string            // of a workflow, "" elsewhere
	heard   map[string]string // by step, of the tool that runs it
	order   []string
	patches int // of the state of the workflow, since the node began
	results int // of all tools, since the node or the question began
}

func readConversation(messages []chatMessage) conversation {
	c := conversation{heard: make(map[string]string)}
	asked := make(map[string]chatFunction)
	for i := range messages {
		m := &messages[i]
		text := m.text()
		if words := scriptWords.FindStringSubmatch(text); words != nil {
			steps, _ := strconv.Atoi(words[2]) // a digit
			c.script = script{words[1], steps, words[3]}
		}
		if _, brief, ok := strings.Cut(text, "NODE_BRIEF\n- currentNodeId: "); ok && m.Role == "user" {
			c.node, _, _ = strings.Cut(brief, "\n")
			c.patches, c.results = 0, 0
		}
		for _, call := range m.ToolCalls {
			asked[call.ID] = call.Function
		}
		if m.Role != "tool" {
			continue
		}
		c.results++
		call := asked[m.ToolCall]
		if call.Name == "fs_apply_patch" {
			c.patches++
		}
		if step, ok := stepAsked(call.Arguments); ok {
			if _, again := c.heard[step]; !again {
				c.order = append(c.order, step)
			}
			c.heard[step] = text
		}
	}
	return c
}

// stepAsked is the step that a call of a tool is about.
func stepAsked(arguments string) (string, bool) {
	var j job
	if json.Unmarshal([]byte(arguments), &j) != nil || !stepName.MatchString(j.Job) {
		return "", false
	}
	return j.Job, true
}

// heardCode is the error code in the result of a step, "" for success.
func heardCode(step, text string) string {
	if strings.Contains(text, `"job":"`+step+`"`) {
		return ""
	}
	if code := errorCode.FindString(text); code != "" {
		return code
	}
	return string(protocol.OutcomeUnknown)
}

// errorCode matches a code of the protocol in the result of a tool.
var errorCode = regexp.MustCompile(`\b[1-5]0[0-9]{2}\b`)

// next is the next call of the model, or its last text.
func (c *conversation) next() (call *chatFunction, said string) {
	const most = 20 // results, by which a script is long done
	switch {
	case c.results >= most:
		return nil, "I do not get on."
	case c.node != "":
		return c.nextOfNode()
	case c.script.id == "":
		return nil, "There is nothing to do."
	}
	for number := range c.script.steps {
		if step := stepOf(c.script.id, number+1); !c.knows(step) {
			return c.script.run(step), ""
		}
	}
	return nil, "It is done."
}

// nextOfNode is next in a workflow: its nodes are the steps, and its state names the
// job.
func (c *conversation) nextOfNode() (call *chatFunction, said string) {
	if c.script.id == "" {
		return &chatFunction{"fs_read", `{"path":"@state/workflow.md"}`}, ""
	}
	at := slices.Index(workflowNodes, c.node)
	if step := stepOf(c.script.id, at+1); !c.knows(step) {
		return c.script.run(step), ""
	}
	last := at == len(workflowNodes)-1
	if last && c.patches > 0 {
		return nil, "It is done."
	}
	update := fmt.Sprintf(`"stepsCompleted":{"append":[%q]}`, c.node)
	if !last {
		update += fmt.Sprintf(`,"currentNodeId":{"set":%q}`, workflowNodes[at+1])
	}
	return &chatFunction{"fs_apply_patch", `{"path":"@state/workflow.md","operation":"updateFrontmatter","update":{` + update + `}}`}, ""
}

func (c *conversation) knows(step string) bool {
	_, ok := c.heard[step]
	return ok
}

func (s script) run(step string) *chatFunction {
	arguments, _ := json.Marshal(job{step}) // a string
	return &chatFunction{s.tool, string(arguments)}
}
