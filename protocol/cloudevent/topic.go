package cloudevent

import (
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// Modes of the binding to MQTT.
const (
	Binary     = "binary"     // the data, with the attributes as user properties of MQTT 5
	Structured = "structured" // one JSON object
)

// level is the one below which topics carry CloudEvents.
const level = "cloudevents"

// Topic carries, in a mode, the events of a topic that is named without its root.
func Topic(topics protocol.Topics, mode, subject string) string {
	return topics.Root() + "/" + level + "/" + mode + "/" + subject
}

// Told is the filter of the plain events that a filter of CloudEvents carries: the right
// to hear the ones is the right to hear the others. Every other filter is its own.
func Told(topics protocol.Topics, filter string) string {
	rest, _ := topics.Under(filter)
	for _, mode := range []string{Binary, Structured} {
		if subject, ok := strings.CutPrefix(rest, level+"/"+mode+"/"); ok {
			return topics.Root() + "/" + subject
		}
	}
	return filter
}
