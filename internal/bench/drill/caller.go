package drill

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A caller sends requests over HTTP, one after the other. After a lost answer, or one
// that permits a repetition, it repeats the request with its id at the next node.
type caller struct {
	name   string
	nodes  []endpoint
	home   int
	http   *http.Client
	record *recorder
	load   *load

	at    int // the node that answered last
	count int // of wishes

	mu    sync.Mutex
	tasks map[string]string // ids of tasks by the ids of their calls
	kept  []string          // ids of registrations acknowledged in this round
}

// A wish is a kind of request of callers.
type wish struct {
	stream  string
	command string
	params  func(id string) any
}

func newCaller(name string, home int, nodes []endpoint, client *http.Client, record *recorder, load *load) *caller {
	return &caller{name: name, nodes: nodes, home: home, at: home, http: client, record: record, load: load, tasks: make(map[string]string)}
}

// wishes are the calls that a caller makes in turn.
func (c *caller) wishes() []wish {
	skill := fmt.Sprintf("drill-%d", c.home)
	invoke := func(async bool) func(id string) any {
		return func(id string) any {
			return map[string]any{"skill_id": skill, "capability_id": "do", "params": map[string]any{"job": id}, "async": async}
		}
	}
	return []wish{
		{streamCall, "skill.invoke", invoke(false)},
		{streamRegistration, "resource.register", func(id string) any {
			return map[string]any{"resource": map[string]any{"resource_id": id, "name": id, "type": "drill"}}
		}},
		{streamCall, "skill.invoke", invoke(false)},
		{streamTask, "skill.invoke", invoke(true)},
	}
}

// run asks while there is load, until ctx ends.
func (c *caller) run(ctx context.Context) {
	wishes := c.wishes()
	for turn := 0; c.load.wait(ctx, callEvery); turn++ {
		c.load.busy.Add(1)
		c.fulfil(ctx, wishes[turn%len(wishes)])
		c.load.busy.Add(-1)
	}
}

const callEvery = 300 * time.Millisecond

// fulfil sends a request until there is a final answer, and then repeats it once at
// another node, which must have no effect.
func (c *caller) fulfil(ctx context.Context, w wish) {
	c.count++
	id := fmt.Sprintf("%s-%s-%d", c.name, w.stream, c.count)
	request, err := protocol.NewRequest(w.command, w.params(id))
	if err != nil {
		return // the params are the drill's own
	}
	request.ID = id
	request.Metadata.Timeout = time.Minute
	c.record.add(Event{Kind: Asked, Client: c.name, Stream: w.stream, ID: id})
	result, code, node, ok := c.insist(ctx, request)
	if !ok {
		return
	}
	c.record.add(Event{Kind: Answered, Client: c.name, Node: node, Stream: w.stream, ID: id, Code: code})
	if code == "" {
		c.note(w, id, result)
	}
	if w.stream == streamCall && c.count%5 == 0 && mayHaveRun(protocol.Code(code)) {
		c.at++
		_, _ = c.ask(ctx, c.nodes[c.at%len(c.nodes)], request, longPatience)
	}
}

// note records the answers that are checked at the end of the round.
func (c *caller) note(w wish, id string, result []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch w.stream {
	case streamRegistration:
		c.kept = append(c.kept, id)
	case streamTask:
		var started struct {
			TaskID string `json:"task_id"`
		}
		_ = json.Unmarshal(result, &started) // without one it is not found
		c.tasks[id] = started.TaskID
	}
}

// harvest returns the acknowledged registrations and tasks since its last call.
func (c *caller) harvest() (registrations []string, tasks map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	registrations, tasks = c.kept, c.tasks
	c.kept, c.tasks = nil, make(map[string]string)
	return registrations, tasks
}

// insist repeats a request until there is an answer that stands. ok is false if
// ctx ended before.
func (c *caller) insist(ctx context.Context, request *protocol.Request) (result []byte, code, node string, ok bool) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		to := c.nodes[c.at%len(c.nodes)]
		response, err := c.ask(ctx, to, request, min(shortPatience<<min(attempt, 10), longPatience))
		switch {
		case err == nil && response.Err == nil:
			return response.Result, "", to.name, true
		case err == nil && response.Err.Code.Retry() == protocol.RetryNever:
			return nil, string(response.Err.Code), to.name, true
		}
		c.at++
		pause(ctx, 100*time.Millisecond)
	}
	return nil, "", "", false
}

// ask sends a request to a node once.
func (c *caller) ask(ctx context.Context, to endpoint, request *protocol.Request, patience time.Duration) (*protocol.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+to.http+"/api/v1/commands", bytes.NewReader(request.Append(nil)))
	if err != nil {
		return nil, err
	}
	post.Header.Set("Content-Type", "application/json")
	answer, err := c.http.Do(post)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	response, err := protocol.DecodeResponse(body, protocol.Limits{})
	if err == nil && response.ID != request.ID {
		err = fmt.Errorf("%s answered %q to %q", to.name, response.ID, request.ID)
	}
	return response, err
}

// once asks a node for a command of the drill's own.
func (c *caller) once(ctx context.Context, to endpoint, command string, params any) (*protocol.Response, error) {
	request, err := protocol.NewRequest(command, params)
	if err != nil {
		return nil, err
	}
	return c.ask(ctx, to, request, longPatience)
}

// taskState is the state of a task, or the code that a node answers for it.
func (c *caller) taskState(ctx context.Context, at endpoint, id string) string {
	response, err := c.once(ctx, at, "task.get", map[string]any{"task_id": id})
	if code := codeOf(response, err); code != "" {
		if code == string(protocol.NotFound) {
			return code
		}
		return stateRunning // the outcome is not known yet
	}
	var task struct {
		State string `json:"state"`
	}
	_ = json.Unmarshal(response.Result, &task) // without a state it is not at rest
	if task.State == "" {
		return stateRunning
	}
	return task.State
}

// codeOf is the code of an answer, "" for success.
func codeOf(response *protocol.Response, err error) string {
	switch {
	case err != nil:
		return "no answer"
	case response.Err != nil:
		return string(response.Err.Code)
	}
	return ""
}
