package a2a

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

// Bounds of the part of an agent's answer that is passed on.
const (
	maxText  = 1 << 20 // bytes of all texts
	maxData  = 1 << 20 // bytes of all data and files
	maxParts = 256
	maxSaid  = 1000 // bytes of messages on the way, and of errors
)

// A heard is a message from an agent: an answer, an event of a stream, or a task.
// One of the fields is not nil.
type heard struct {
	Task     *remoteTask    `json:"task"`
	Message  *remoteMessage `json:"message"`
	Status   *statusUpdate  `json:"statusUpdate"`
	Artifact *struct {
		Task     string   `json:"taskId"`
		Context  string   `json:"contextId"`
		Artifact artifact `json:"artifact"`
		Append   bool     `json:"append"`
	} `json:"artifactUpdate"`
}

type statusUpdate struct {
	Task    string `json:"taskId"`
	Context string `json:"contextId"`
	Status  status `json:"status"`
}

type remoteTask struct {
	ID        string     `json:"id"`
	Context   string     `json:"contextId"`
	Status    status     `json:"status"`
	Artifacts []artifact `json:"artifacts"`
}

type status struct {
	State   taskState      `json:"state"`
	Message *remoteMessage `json:"message"`
}

type remoteMessage struct {
	Task    string `json:"taskId"`
	Context string `json:"contextId"`
	Parts   []part `json:"parts"`
}

type artifact struct {
	ID    string `json:"artifactId"`
	Name  string `json:"name"`
	Parts []part `json:"parts"`
}

type part struct {
	Text      *string         `json:"text"`
	Raw       string          `json:"raw"`
	URL       string          `json:"url"`
	Data      json.RawMessage `json:"data"`
	Filename  string          `json:"filename"`
	MediaType string          `json:"mediaType"`
}

// A taskState is the state of a task. Enums of ProtoJSON may come as numbers.
type taskState string

// The states, by their names without the common prefix.
const (
	submitted     taskState = "submitted"
	working       taskState = "working"
	completed     taskState = "completed"
	failed        taskState = "failed"
	canceled      taskState = "canceled"
	inputRequired taskState = "input_required"
	rejected      taskState = "rejected"
	authRequired  taskState = "auth_required"
)

// states are the states by their numbers. The first stands for none.
var states = []taskState{"", submitted, working, completed, failed, canceled, inputRequired, rejected, authRequired}

// UnmarshalJSON implements [json.Unmarshaler]. Unknown values become no state.
func (s *taskState) UnmarshalJSON(text []byte) error {
	*s = ""
	var name string
	var number int
	switch {
	case json.Unmarshal(text, &name) == nil:
		name = strings.ToLower(strings.TrimPrefix(name, "TASK_STATE_"))
		for _, known := range states {
			if string(known) == name {
				*s = known
			}
		}
	case json.Unmarshal(text, &number) == nil && number > 0 && number < len(states):
		*s = states[number]
	}
	return nil
}

// rests reports whether nothing more happens to a task in the state by itself.
func (s taskState) rests() bool {
	switch s {
	case completed, failed, canceled, rejected, inputRequired, authRequired:
		return true
	}
	return false
}

// words are the texts of a message, at most so many bytes, as one line.
func (m *remoteMessage) words(most int) string {
	if m == nil {
		return ""
	}
	var b strings.Builder
	for i := range m.Parts {
		if t := m.Parts[i].Text; t != nil && b.Len() <= most {
			b.WriteString(short(*t, most))
			b.WriteByte(' ')
		}
	}
	return line(b.String(), most)
}

// A Result is an agent's answer, as callers of its skill get it.
type Result struct {
	State taskState       `json:"state"`
	Text  string          `json:"text,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"` // the one value with data, or an array of several
	Files []File          `json:"files,omitempty"`
	Cut   bool            `json:"cut,omitempty"` // there was more than is passed on
	// Continue lets the same caller go on with the task or conversation.
	Continue string `json:"continue,omitempty"`

	task, context string
}

// A File is a part of an answer that is no text and no JSON.
type File struct {
	Name      string `json:"name,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"` // base64
	URL       string `json:"url,omitempty"`  // the agent's own claim, unverified
}

// A gathering makes a result of parts, within its bounds.
type gathering struct {
	texts []string
	data  []json.RawMessage
	files []File
	size  int // of the texts
	bulk  int // of the rest
	parts int
	cut   bool
}

func (g *gathering) add(parts []part) {
	for i := range parts {
		if g.parts++; g.parts > maxParts {
			g.cut = true
			return
		}
		g.take(&parts[i])
	}
}

func (g *gathering) take(p *part) {
	switch {
	case p.Text != nil:
		text := strings.ToValidUTF8(*p.Text, "")
		if room := maxText - g.size; len(text) > room {
			text, g.cut = strings.ToValidUTF8(text[:room], ""), true
		}
		g.size += len(text)
		g.texts = append(g.texts, text)
	case len(p.Data) > 0:
		if g.fits(len(p.Data)) {
			g.data = append(g.data, p.Data)
		}
	case p.Raw != "":
		plain := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(p.Raw, "="))
		if raw, err := base64.RawStdEncoding.DecodeString(plain); err == nil && g.fits(len(p.Raw)) {
			g.files = append(g.files, File{Name: line(p.Filename, 200), MediaType: line(p.MediaType, 100), Data: base64.StdEncoding.EncodeToString(raw)})
		}
	case p.URL != "":
		if url := line(p.URL, 2048); g.fits(len(url)) {
			g.files = append(g.files, File{Name: line(p.Filename, 200), MediaType: line(p.MediaType, 100), URL: url})
		}
	}
}

func (g *gathering) fits(size int) bool {
	if g.bulk+size > maxData {
		g.cut = true
		return false
	}
	g.bulk += size
	return true
}

func (g *gathering) into(r *Result) {
	r.Text, r.Files, r.Cut = strings.Join(g.texts, "\n"), g.files, g.cut
	switch len(g.data) {
	case 0:
	case 1:
		r.Data = g.data[0]
	default:
		r.Data, _ = json.Marshal(g.data) // each is JSON that was read
	}
}
