package protocol

import (
	"bytes"
	"encoding/json"
)

// TaskOfWaiting is the task that a result names because a call first needs an approval:
// the task has the rest later. It is "" for every other result
// (docs/protocol.md#results-that-wait).
func TaskOfWaiting(result []byte) TaskID {
	if !bytes.Contains(result, []byte(`"waiting":{`)) {
		return ""
	}
	var r struct {
		Finish  string `json:"finish_reason"`
		Waiting struct {
			Task TaskID `json:"task_id"`
		} `json:"waiting"`
	}
	if json.Unmarshal(result, &r) != nil || r.Finish != "waiting" || r.Waiting.Task.Rule().Check(string(r.Waiting.Task)) != "" {
		return ""
	}
	return r.Waiting.Task
}
