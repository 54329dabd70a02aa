package device

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A line is the way to a device while it is online: requests that the bridge
// sends over it are answered in this process.
type line struct {
	fleet *Fleet

	mu     sync.Mutex
	member *member
	over   bool
	calls  map[string]context.CancelFunc // by the id of the request
}

var _ commands.Line = (*line)(nil)

func newLine(m *member) *line {
	return &line{fleet: m.fleet, member: m, calls: map[string]context.CancelFunc{}}
}

// is has the line go on for the same device, described anew.
func (l *line) is(m *member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.member = m
}

// Attend implements [commands.Line].
func (l *line) Attend() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.over
}

// end ends the line, and with it the requests over it.
func (l *line) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	for _, cancel := range l.calls {
		cancel()
	}
}

// Send implements [commands.Line]: it takes a request to the device.
func (l *line) Send(message []byte) bool {
	request, err := protocol.DecodeRequest(message, protocol.Limits{})
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	if request.Command == "task.cancel" {
		l.cancel(request.Params)
		return true
	}
	ctx, cancel := context.WithCancel(l.member.gone)
	l.calls[request.ID] = cancel
	m := l.member
	l.fleet.asking.Go(func() {
		defer cancel()
		answer := request.Answer(string(m.Agent), time.Now())
		result, err := m.run(ctx, request)
		if err != nil {
			answer.Err = err
		} else {
			answer.Result = result
		}
		l.mu.Lock()
		delete(l.calls, request.ID)
		l.mu.Unlock()
		l.fleet.Metrics.asked(l.fleet.Origin, err)
		l.fleet.Agents.AnswerOver(l, l.fleet.who, answer.Append(nil))
	})
	return true
}

// cancel ends the request that the params of a task.cancel name.
func (l *line) cancel(params []byte) {
	var p struct {
		Task string `json:"task_id"`
	}
	if json.Unmarshal(params, &p) == nil && l.calls[p.Task] != nil {
		l.calls[p.Task]()
	}
}
