package a2a

import (
	"encoding/json"
	"time"
)

// Version is the version of the protocol that is spoken here.
const Version = "1.0"

// A TaskState is the state of a task.
type TaskState string

// The states.
const (
	Submitted     TaskState = "TASK_STATE_SUBMITTED"
	Working       TaskState = "TASK_STATE_WORKING"
	Completed     TaskState = "TASK_STATE_COMPLETED"
	Failed        TaskState = "TASK_STATE_FAILED"
	Canceled      TaskState = "TASK_STATE_CANCELED"
	InputRequired TaskState = "TASK_STATE_INPUT_REQUIRED"
	Rejected      TaskState = "TASK_STATE_REJECTED"
	AuthRequired  TaskState = "TASK_STATE_AUTH_REQUIRED"
)

// states are the names of the states, by their numbers. The first is no state.
var states = []string{
	"TASK_STATE_UNSPECIFIED", string(Submitted), string(Working), string(Completed), string(Failed), string(Canceled),
	string(InputRequired), string(Rejected), string(AuthRequired),
}

// terminal reports whether a task in the state changes no more.
func (s TaskState) terminal() bool {
	switch s {
	case Completed, Failed, Canceled, Rejected:
		return true
	}
	return false
}

// interrupted reports whether a task in the state waits for an input or an approval.
func (s TaskState) interrupted() bool { return s == InputRequired || s == AuthRequired }

// Roles of messages.
const (
	roleUser  = "ROLE_USER"
	roleAgent = "ROLE_AGENT"
)

// roles are their names by their numbers.
var roles = []string{"ROLE_UNSPECIFIED", roleUser, roleAgent}

// A Timestamp is written as ProtoJSON does: in UTC, with three digits of a second.
type Timestamp time.Time

// MarshalJSON implements [json.Marshaler].
func (t Timestamp) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Time(t).UTC().Format("2006-01-02T15:04:05.000Z"))
}

// UnmarshalJSON implements [json.Unmarshaler], for stored timestamps.
func (t *Timestamp) UnmarshalJSON(text []byte) error { return (*time.Time)(t).UnmarshalJSON(text) }

// A Part is a piece of a message or an artifact. One of Text, Raw, URL and Data is
// not nil.
type Part struct {
	Text      *string         `json:"text,omitempty"`
	Raw       []byte          `json:"raw,omitempty"` // base64
	URL       *string         `json:"url,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	Filename  string          `json:"filename,omitempty"`
	MediaType string          `json:"mediaType,omitempty"`
}

// A Message is one turn of a conversation.
type Message struct {
	ID         string          `json:"messageId"`
	Context    string          `json:"contextId,omitempty"`
	Task       string          `json:"taskId,omitempty"`
	Role       string          `json:"role"`
	Parts      []Part          `json:"parts"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	Extensions []string        `json:"extensions,omitempty"`
	References []string        `json:"referenceTaskIds,omitempty"`
}

// An Artifact is an output of a task.
type Artifact struct {
	ID          string          `json:"artifactId"`
	Name        string          `json:"name,omitempty"`
	Description string          `json:"description,omitempty"`
	Parts       []Part          `json:"parts"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
}

// A Status is the state of a task, with a message about it.
type Status struct {
	State     TaskState `json:"state"`
	Message   *Message  `json:"message,omitempty"`
	Timestamp Timestamp `json:"timestamp"`
}

// A Task is a piece of work.
type Task struct {
	ID        string          `json:"id"`
	Context   string          `json:"contextId"`
	Status    Status          `json:"status"`
	Artifacts []Artifact      `json:"artifacts,omitempty"`
	History   []Message       `json:"history,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
}

// A StatusUpdate is the event of a task's new status.
type StatusUpdate struct {
	Task    string `json:"taskId"`
	Context string `json:"contextId"`
	Status  Status `json:"status"`
}

// An ArtifactUpdate is the event of a new or changed artifact.
type ArtifactUpdate struct {
	Task     string   `json:"taskId"`
	Context  string   `json:"contextId"`
	Artifact Artifact `json:"artifact"`
	Last     bool     `json:"lastChunk,omitempty"`
}

// A StreamResponse is an event of a stream, or a push notification: one of its
// fields.
type StreamResponse struct {
	Task     *Task           `json:"task,omitempty"`
	Status   *StatusUpdate   `json:"statusUpdate,omitempty"`
	Artifact *ArtifactUpdate `json:"artifactUpdate,omitempty"`
}

// state is the state in an event, "" for none.
func (e *StreamResponse) state() TaskState {
	if s := e.status(); s != nil {
		return s.State
	}
	return ""
}

// status is the status in an event, nil for none.
func (e *StreamResponse) status() *Status {
	switch {
	case e.Task != nil:
		return &e.Task.Status
	case e.Status != nil:
		return &e.Status.Status
	}
	return nil
}

// A PushConfig is the receiver of a task's push notifications.
type PushConfig struct {
	Tenant         string          `json:"tenant,omitempty"`
	ID             string          `json:"id,omitempty"`
	Task           string          `json:"taskId,omitempty"`
	URL            string          `json:"url"`
	Token          string          `json:"token,omitempty"`
	Authentication *Authentication `json:"authentication,omitempty"`
}

// An Authentication is the credential that the receiver expects.
type Authentication struct {
	Scheme      string `json:"scheme"`
	Credentials string `json:"credentials,omitempty"`
}

// textPart is a part with a text.
func textPart(text string) Part { return Part{Text: &text, MediaType: "text/plain"} }

// dataPart is a part with a JSON value.
func dataPart(value json.RawMessage) Part { return Part{Data: value, MediaType: jsonType} }

// jsonType is the media type of data.
const jsonType = "application/json"
