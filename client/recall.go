package client

import (
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// recall answers the bridge's question what became of an invocation, which it
// asks with task.get when it lost the answer or itself: task_id is the
// invocation's id. An answer that is known is sent again. Of an invocation that
// is not known the bridge learns since when none would have been forgotten, so
// that it can tell whether this one ever arrived.
func (x *jobs) recall(request *protocol.Request, m *Message) {
	var p struct {
		TaskID string `json:"task_id"`
	}
	if err := json.Unmarshal(request.Params, &p); err != nil || p.TaskID == "" {
		x.refuse(request, m, protocol.InvalidParam("task_id", "is missing"))
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	response := request.Answer(string(x.server.agent.ID), time.Now())
	until := time.Now().Add(answerTimeout)
	switch j := x.byID[p.TaskID]; {
	case j == nil:
		response.Err = protocol.Errorf(protocol.NotFound, "this agent does not know the invocation").
			With("task_id", p.TaskID).With("listening_ms", time.Since(x.since).Milliseconds())
	case j.answer != nil:
		x.sendLater(j.answer, []byte(p.TaskID), until)
		response.Result = []byte(`{"state":"done"}`)
	default:
		response.Result = []byte(`{"state":"running"}`)
	}
	x.sendLater(response.Append(nil), m.CorrelationData, until)
}
