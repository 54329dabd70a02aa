package a2a

import (
	"slices"
	"strconv"

	"github.com/aibridge/aibridge/protocol"
)

// Modes of artifacts over MQTT (A2A over MQTT 0.1, Optional MQTT Native Binary Artifact
// Mode): files in base64, or as the bytes that they are.
const (
	JSONMode   = "json"
	BinaryMode = "binary"
)

// ModeProperty is the user property with the mode of artifacts, in requests and
// answers.
const ModeProperty = "a2a-artifact-mode"

// chunk is the greatest number of bytes of a file in one message.
const chunk = 128 << 10

// inJSON sets the mode of the answer to JSON, the mode of all answers that are not
// streams.
func (m *Arrival) inJSON() {
	if m.Mode != "" {
		m.Mode = JSONMode
	}
}

// chosen returns the property with the mode, for a requester that has requested one.
func (m *Arrival) chosen() []protocol.UserProperty {
	if m.Mode == "" {
		return nil
	}
	return []protocol.UserProperty{{Key: ModeProperty, Value: m.Mode}}
}

// pieces returns the messages of an event. In binary mode the files of an ended task
// come before its end, which ends the stream as well.
func (m *Arrival) pieces(x *exchange, e *StreamResponse) []Answer {
	if t := e.Task; m.Mode == BinaryMode && t != nil && slices.ContainsFunc(t.Artifacts, hasFile) {
		begun := *t
		begun.Artifacts, begun.Status = nil, Status{State: Working, Timestamp: t.Status.Timestamp}
		list := []Answer{m.told(x, &StreamResponse{Task: &begun})}
		for i := range t.Artifacts {
			list = append(list, m.artifact(x, &ArtifactUpdate{Task: t.ID, Context: t.Context, Artifact: t.Artifacts[i], Last: true})...)
		}
		return append(list, m.told(x, &StreamResponse{Status: &StatusUpdate{Task: t.ID, Context: t.Context, Status: t.Status}}))
	}
	if m.Mode == BinaryMode && e.Artifact != nil {
		return m.artifact(x, e.Artifact)
	}
	return []Answer{m.told(x, e)}
}

// told converts an event to a message of JSON-RPC.
func (m *Arrival) told(x *exchange, e *StreamResponse) Answer {
	return Answer{Body: x.response(e, nil), MediaType: jsonType, Properties: m.chosen()}
}

// hasFile reports whether an artifact has exactly one file. The bytes of several could
// not be separated.
func hasFile(a Artifact) bool {
	files := 0
	for i := range a.Parts {
		if len(a.Parts[i].Raw) > 0 {
			files++
		}
	}
	return files == 1
}

// artifact are the messages of an artifact: its file in chunks, after the parts that are
// no file.
func (m *Arrival) artifact(x *exchange, u *ArtifactUpdate) (list []Answer) {
	if !hasFile(u.Artifact) {
		return []Answer{m.told(x, &StreamResponse{Artifact: u})}
	}
	at := slices.IndexFunc(u.Artifact.Parts, func(p Part) bool { return len(p.Raw) > 0 })
	file, rest := u.Artifact.Parts[at], *u
	rest.Artifact.Parts = slices.Delete(slices.Clone(u.Artifact.Parts), at, at+1)
	if rest.Last = false; len(rest.Artifact.Parts) > 0 {
		list = append(list, m.told(x, &StreamResponse{Artifact: &rest}))
	}
	number := 0
	for bytes := range slices.Chunk(file.Raw, chunk) {
		last := (number+1)*chunk >= len(file.Raw)
		list = append(list, Answer{Body: bytes, MediaType: file.MediaType, Properties: append(m.chosen(),
			protocol.UserProperty{Key: "a2a-event-type", Value: "task-artifact-update"},
			protocol.UserProperty{Key: "a2a-task-id", Value: u.Task},
			protocol.UserProperty{Key: "a2a-context-id", Value: u.Context},
			protocol.UserProperty{Key: "a2a-artifact-id", Value: u.Artifact.ID},
			protocol.UserProperty{Key: "a2a-chunk-seqno", Value: strconv.Itoa(number)},
			protocol.UserProperty{Key: "a2a-last-chunk", Value: strconv.FormatBool(last)},
		)})
		number++
	}
	return list
}
