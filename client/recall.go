package client

import (
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// recall answers the bridge's question for the outcome of an invocation, which it
// asks with task.get after it lost the answer or restarted: task_id is the
// invocation's id. A known answer is sent again. For an unknown invocation the
// bridge gets the time since which none was forgotten, so that it can tell whether
// this one ever arrived.
func (x *jobs) recall(request *protocol.Request, m *Message) {
	var p struct {
		TaskID string `json:"task_id"`
	}
	if err := json.Unmarshal(request.Params, &p); err != nil || p.TaskID == "" {
		x.refuse(request, m, protocol.InvalidParam("task_id", "is missing"))
		return
	}
	response := request.Answer(string(x.server.agent.ID), time.Now())
	known, answer, since := x.find(p.TaskID)
	switch {
	case !known:
		response.Err = protocol.Errorf(protocol.NotFound, "this agent does not know the invocation").
			With("task_id", p.TaskID).With("listening_ms", time.Since(since).Milliseconds())
	case answer != nil:
		x.post(answer, []byte(p.TaskID))
		response.Result = []byte(`{"state":"done"}`)
	default:
		response.Result = []byte(`{"state":"running"}`)
	}
	x.post(response.Append(nil), m.CorrelationData)
}

// find looks an invocation up. Its answer is nil while it is at work; since is
// from when on none is forgotten.
func (x *jobs) find(id string) (known bool, answer []byte, since time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	j := x.byID[id]
	if j == nil {
		return false, nil, x.since
	}
	return true, j.answer, x.since
}
