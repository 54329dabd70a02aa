package a2a

import (
	"encoding/json"
	"time"
)

// The bounds of requests, beside that of the whole.
const (
	maxID    = 128 // bytes of ids that clients make
	maxURL   = 2048
	maxToken = 4096
	maxParts = 64
	maxPage  = 100
	page     = 50 // by default
)

// A sending is a request of SendMessage and SendStreamingMessage.
type sending struct {
	tenant    string
	message   Message
	modes     []string    // media types that the client takes; nil: any
	push      *PushConfig // nil: none are wanted
	history   *int
	immediate bool
	write     func(text string) // receives the text of a language model as it comes; nil for the whole text at the end
}

func readSending(r *reader) *sending {
	s := &sending{tenant: r.text("tenant", maxID)}
	if m := r.message("message"); m != nil {
		s.message = readMessage(m)
	} else {
		r.refuse("message", "is required")
	}
	r.structure("metadata")
	if c := r.message("configuration"); c != nil {
		s.modes = c.texts("acceptedOutputModes", maxParts, maxID)
		s.history, s.immediate = c.length("historyLength"), c.flag("returnImmediately")
		if p := c.message("taskPushNotificationConfig"); p != nil {
			config := readPush(p)
			s.push = &config
		}
	}
	return s
}

// length is a number of messages.
func (r *reader) length(name string) *int {
	n := r.number(name)
	if n != nil && *n < 0 {
		r.refuse(name, "must not be negative")
	}
	return n
}

func readMessage(r *reader) Message {
	m := Message{
		ID: r.needed("messageId", maxID), Context: r.text("contextId", maxID), Task: r.text("taskId", maxID), Role: r.enum("role", roles),
		Metadata: r.structure("metadata"), Extensions: r.texts("extensions", maxParts, maxURL), References: r.texts("referenceTaskIds", maxParts, maxID),
	}
	switch m.Role {
	case "":
		r.refuse("role", "is required")
	case roleAgent:
		r.refuse("role", "must be %s of what a client sends", roleUser)
	}
	for _, p := range r.messages("parts", maxParts) {
		m.Parts = append(m.Parts, readPart(p))
	}
	if len(m.Parts) == 0 {
		r.refuse("parts", "must have at least one element")
	}
	return m
}

func readPart(r *reader) Part {
	p := Part{Metadata: r.structure("metadata"), Filename: r.text("filename", maxID*2), MediaType: r.text("mediaType", maxID)}
	contents := 0
	if text, there := r.optionalText("text", 1<<30); there {
		p.Text = &text
		contents++
	}
	if p.Raw = r.bytes("raw"); p.Raw != nil {
		contents++
	}
	if url, there := r.optionalText("url", maxURL); there {
		p.URL = &url
		contents++
	}
	if data, there := r.fields["data"]; there { // of which null is a value
		p.Data = data
		contents++
	}
	if contents != 1 {
		r.refuse("content", "must be one of text, raw, url and data")
	}
	return p
}

func readPush(r *reader) PushConfig {
	p := PushConfig{
		Tenant: r.text("tenant", maxID), ID: r.text("id", maxID), Task: r.text("taskId", maxID), URL: r.needed("url", maxURL), Token: r.text("token", maxToken),
	}
	if a := r.message("authentication"); a != nil {
		p.Authentication = &Authentication{Scheme: a.needed("scheme", maxID), Credentials: a.text("credentials", maxToken)}
		if !isHeaderValue(p.Authentication.Scheme) || !isHeaderValue(p.Authentication.Credentials) {
			r.refuse("authentication", "cannot be sent in a header")
		}
	}
	if !isHeaderValue(p.Token) {
		r.refuse("token", "cannot be sent in a header")
	}
	return p
}

func isHeaderValue(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// A naming is a request that names a task, and perhaps a configuration of it.
type naming struct {
	tenant, task, config string
	history              *int
}

// readNaming reads a request with the id of a task.
func readNaming(r *reader) *naming {
	n := &naming{tenant: r.text("tenant", maxID), task: r.needed("id", maxID), history: r.length("historyLength")}
	r.structure("metadata")
	return n
}

// readConfigNaming reads a request about the configurations of a task.
func readConfigNaming(r *reader, one bool) *naming {
	n := &naming{tenant: r.text("tenant", maxID), task: r.needed("taskId", maxID)}
	if one {
		n.config = r.needed("id", maxID)
	}
	return n
}

// A listing is a request of ListTasks.
type listing struct {
	tenant, context, cursor string
	state                   TaskState
	size                    int
	history                 *int
	after                   *time.Time
	artifacts               bool
}

func readListing(r *reader) *listing {
	l := &listing{
		tenant: r.text("tenant", maxID), context: r.text("contextId", maxID), cursor: r.text("pageToken", maxToken), state: TaskState(r.enum("status", states)),
		size: page, history: r.length("historyLength"), after: r.time("statusTimestampAfter"), artifacts: r.flag("includeArtifacts"),
	}
	if size := r.number("pageSize"); size != nil {
		if *size < 1 || *size > maxPage {
			r.refuse("pageSize", "must be within 1 and %d", maxPage)
		}
		l.size = *size
	}
	return l
}

// A listed is the answer of ListTasks. All of its fields are always there.
type listed struct {
	Tasks []Task `json:"tasks"`
	Next  string `json:"nextPageToken"`
	Size  int    `json:"pageSize"`
	Total int    `json:"totalSize"`
}

// MarshalJSON implements [json.Marshaler]: tasks are a list also if there is none.
func (l *listed) MarshalJSON() ([]byte, error) {
	type plain listed
	p := plain(*l)
	if p.Tasks == nil {
		p.Tasks = []Task{}
	}
	return json.Marshal(&p)
}
