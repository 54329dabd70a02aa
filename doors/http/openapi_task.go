package http

import (
	"encoding/json"

	"github.com/aibridge/aibridge/commands"
)

// addTaskPath describes where a task can be asked for, if there are tasks.
func addTaskPath(paths object, set *commands.Set) {
	c, ok := set.Find("task.get")
	if !ok {
		return
	}
	responses := errorResponses(c.Errors)
	responses["200"] = object{"description": "The task.", "content": jsonContent(embedded(c.ResultSchema()))}
	paths[taskPath+"{task_id}"] = object{"get": object{
		"operationId": "task-show", "summary": c.Summary, "tags": []string{c.Family()},
		"parameters": []object{{"name": "task_id", "in": "path", "required": true, "schema": object{"type": "string"}, "description": "id of the task"}},
		"responses":  responses, "x-action": c.Action,
	}}
}

// mayWait reports whether the result of a command may say that the rest comes
// later.
func mayWait(c *commands.Command) bool {
	var result struct {
		Properties struct {
			Waiting json.RawMessage `json:"waiting"`
		} `json:"properties"`
	}
	return json.Unmarshal(c.ResultSchema(), &result) == nil && len(result.Properties.Waiting) > 0
}

// waits describes an answer whose rest comes later.
func waits(content object) object {
	return object{
		"description": "A call of a tool waits for somebody to agree to it. The task has the answer later.", "content": content,
		"headers": object{"Location": object{"description": "where the task can be asked for", "schema": object{"type": "string", "format": "uri-reference"}}},
	}
}
