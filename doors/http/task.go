package http

import (
	"net/http"

	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/protocol"
)

// taskPath is the path at which a task can be asked for.
const taskPath = "/api/v1/tasks/"

// getTask shows the task in the path, as task.get does. The Location of an answer
// with 202 leads here.
func (a *API) getTask(w http.ResponseWriter, r *http.Request) {
	who, no := a.principal(r)
	if no != nil {
		writeErrorStatus(w, no.status, no.err)
		return
	}
	party := fair.Of(who)
	if err := a.requests.TryAcquire(party, 1); err != nil {
		writeError(w, err)
		return
	}
	defer a.requests.Release(party, 1)
	r.SetPathValue("command", "task.get")
	req, err := a.requestOf(r)
	if err != nil {
		writeError(w, err)
		return
	}
	req.Params = append(protocol.AppendString([]byte(`{"task_id":`), r.PathValue("task_id")), '}')
	a.await(w, r, inbound(r, who, req.Append(nil)), resultOf)
}

// accepted sets the headers of a result that is not final yet, with the place of
// the final one, and returns the status: 202 or 200.
func accepted(h http.Header, result []byte) int {
	task := protocol.TaskOfWaiting(result)
	if task == "" {
		return http.StatusOK
	}
	h.Set("Location", taskPath+string(task))
	return http.StatusAccepted
}
