package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/aibridge/aibridge/client"
)

// longestID is the longest id in bytes that is kept as it is: an index of
// PostgreSQL does not take every length.
const longestID = 512

// A row is one message.
type row struct {
	topic      string
	payload    []byte
	body       *string // the payload if it is JSON
	properties string  // an object of the user properties, a list of values for each name
	eventID    *string // source and id, if the message is a CloudEvent
}

func rowOf(m *client.Message) row {
	r := row{topic: m.Topic, payload: m.Payload, eventID: eventID(m)}
	if r.payload == nil {
		r.payload = []byte{}
	}
	if utf8.Valid(m.Payload) && json.Valid(m.Payload) {
		body := string(m.Payload)
		r.body = &body
	}
	properties := make(map[string][]string, len(m.UserProperties))
	for _, p := range m.UserProperties {
		properties[p.Key] = append(properties[p.Key], p.Value)
	}
	text, _ := json.Marshal(properties) // strings always marshal
	r.properties = string(text)
	return r
}

// eventID tells CloudEvents apart: the standard has no two with the same source
// and id. It is nil for other messages.
func eventID(m *client.Message) *string {
	event := struct{ Specversion, Source, ID string }{m.Property("specversion"), m.Property("source"), m.Property("id")}
	if strings.HasPrefix(m.ContentType, "application/cloudevents+json") && json.Unmarshal(m.Payload, &event) != nil {
		return nil
	}
	if event.Specversion == "" || event.Source == "" || event.ID == "" {
		return nil
	}
	id := event.Source + " " + event.ID
	if len(id) > longestID || strings.ContainsRune(id, 0) {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:])
	}
	return &id
}
