package run

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/aibridge/aibridge/llm/chat"
)

// A conversation is the messages to and from a model. Its messages are never changed in
// place: requests share them.
type conversation struct {
	system []chat.Message
	talk   []chat.Message

	kept   int  // number of messages of talk in the diary
	anew   bool // the diary needs all messages again
	rename bool // the system messages have changed
}

// restore sets the conversation so far.
func (c *conversation) restore(talk []chat.Message) {
	c.talk, c.kept, c.anew = slices.Clip(talk), len(talk), len(talk) == 0
}

func (c *conversation) setSystem(list []chat.Message) {
	if !slices.EqualFunc(c.system, list, sameText) {
		c.system, c.rename = list, true
	}
}

func sameText(a, b chat.Message) bool {
	return len(a.Segments) == 1 && len(b.Segments) == 1 && a.Segments[0].Text == b.Segments[0].Text
}

// add adds messages to the model.
func (c *conversation) add(list ...chat.Message) { c.talk = append(c.talk, list...) }

// answered adds a message that the diary gets as part of the turn.
func (c *conversation) answered(m chat.Message) {
	c.talk = append(c.talk, m)
	c.kept = len(c.talk)
}

// messages returns all messages for a request.
func (c *conversation) messages() []chat.Message {
	return slices.Concat(c.system, c.talk)
}

// since returns the part that the diary does not have yet.
func (c *conversation) since() requestEntry {
	r := requestEntry{Anew: c.anew}
	if c.rename {
		r.System = c.system
	}
	if c.anew {
		r.Added = slices.Clone(c.talk)
	} else {
		r.Added = slices.Clone(c.talk[c.kept:])
	}
	c.kept, c.anew, c.rename = len(c.talk), false, false
	return r
}

const (
	// maxTalk is the greatest size of a conversation, in bytes, before results are left
	// out.
	maxTalk = 1 << 20
	// smallResult is the size below which a result stays, in bytes.
	smallResult = 2 << 10
)

// dropped is the replacement of a result that was left out.
const dropped = `{"ok":true,"dropped":true,"hint":"this result was left out to save room; call the tool again if you need it"}`

// trim replaces the oldest results of a conversation that is too long. Their contents
// are in files.
func (c *conversation) trim() {
	size := 0
	for i := range c.talk {
		size += sizeOf(&c.talk[i])
	}
	if size <= maxTalk {
		return
	}
	talk := slices.Clone(c.talk)
	for i := range talk {
		if size <= maxTalk/2 {
			break
		}
		n := sizeOf(&talk[i])
		if talk[i].Role != chat.ToolRole || n < smallResult {
			continue
		}
		m := talk[i]
		m.Segments = []chat.Segment{{Type: chat.Text, Text: dropped}}
		talk[i] = m
		size -= n - len(dropped)
	}
	c.talk, c.anew = talk, true
}

func sizeOf(m *chat.Message) int {
	n := 0
	for _, s := range m.Segments {
		n += len(s.Text) + len(s.Data)
		if s.ToolCall != nil {
			n += len(s.ToolCall.Args)
		}
	}
	return n
}

// canonical returns JSON in a form that is equal for equal values.
func canonical(raw json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	if dec.Decode(&value) != nil {
		return string(raw)
	}
	sorted, err := json.Marshal(value) // sorts keys
	if err != nil {
		return string(raw)
	}
	return string(sorted)
}
