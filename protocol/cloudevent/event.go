// Package cloudevent writes events of the bridge as CloudEvents 1.0.
package cloudevent

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// ContentType is that of the structured mode.
const ContentType = "application/cloudevents+json"

// typePrefix begins the types.
const typePrefix = "io.github.aibridge."

// An Event is an event as CloudEvents 1.0 has it. No two have the same source and id.
type Event struct {
	ID      string // of the event, with its number and time: the events of a task share its id
	Source  string // urn:aibridge:BRIDGE
	Type    string // io.github.aibridge.task.progress
	Subject string // the topic of the event without the root: task/T/event
	Time    time.Time
	Seq     string // the extension sequence
	TraceID string // the extension traceid; "" for none, or for one that is no attribute
	Parent  string // the extension traceparent; "" for none
	Data    []byte // raw JSON
}

// Of is an event of the bridge about a subject.
func Of(e *protocol.Event, subject string) Event {
	seq := strconv.FormatUint(e.Seq, 10)
	c := Event{
		ID:      e.ID + "." + seq + "." + strconv.FormatInt(e.Timestamp, 10),
		Source:  "urn:aibridge:" + url.PathEscape(cmp.Or(e.Metadata.SenderID, "bridge")),
		Type:    typePrefix + e.Name,
		Subject: subject,
		Time:    time.UnixMilli(e.Timestamp).UTC(),
		Seq:     seq,
		Parent:  e.Traceparent,
		Data:    e.Data,
	}
	if !strings.ContainsFunc(e.Metadata.TraceID, isControl) {
		c.TraceID = e.Metadata.TraceID
	}
	return c
}

// isControl reports whether a character may not be in an attribute.
func isControl(r rune) bool { return r < 0x20 || r >= 0x7F && r < 0xA0 }

// Attributes are all but the data and its content type, which is [protocol.ContentJSON], by
// name: the user properties of the binary mode over MQTT.
func (c *Event) Attributes() (all []protocol.UserProperty) {
	add := func(name, value string) { all = append(all, protocol.UserProperty{Key: name, Value: value}) }
	add("specversion", "1.0")
	add("id", c.ID)
	add("source", c.Source)
	add("type", c.Type)
	add("subject", c.Subject)
	add("time", c.Time.Format("2006-01-02T15:04:05.000Z"))
	add("sequence", c.Seq)
	if c.TraceID != "" {
		add("traceid", c.TraceID)
	}
	if c.Parent != "" {
		add("traceparent", c.Parent)
	}
	return all
}

// Append appends the event as JSON, the structured mode.
func (c *Event) Append(dst []byte) []byte {
	dst = append(dst, '{')
	for _, a := range c.Attributes() {
		dst = protocol.AppendString(dst, a.Key)
		dst = append(dst, ':')
		dst = protocol.AppendString(dst, a.Value)
		dst = append(dst, ',')
	}
	dst = append(dst, `"datacontenttype":"`+protocol.ContentJSON+`"`...)
	if len(c.Data) > 0 {
		dst = append(dst, `,"data":`...)
		dst = append(dst, c.Data...)
	}
	return append(dst, '}')
}
