package transfer

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// A Status is the bridge's message about a transfer, on
// aibridge/vfs/GROUP/status/ID.
type Status struct {
	ID    string `json:"transfer_id"`
	State State  `json:"state"`

	ChunkSize int      `json:"chunk_size,omitempty"` // bytes of every chunk but the last
	Chunks    int      `json:"chunks,omitempty"`
	Received  int      `json:"received,omitempty"` // chunks
	Missing   [][2]int `json:"missing,omitempty"`  // first and last of a run of chunks; the first runs if there are many
	From      *int     `json:"from,omitempty"`     // first chunk that is sent
	Next      *int     `json:"next,omitempty"`     // chunk to ask for next; absent at the end

	File  *vfs.FileView   `json:"file,omitempty"`
	Error *protocol.Error `json:"error,omitempty"`
}

// A State is the state of a transfer.
type State string

// The states.
const (
	Receiving State = "receiving" // chunks of an upload are missing
	Storing   State = "storing"   // all are there, and become a version
	Done      State = "done"      // the version is there
	Failed    State = "failed"    // it will not be
	Aborted   State = "aborted"   // as asked
	Sending   State = "sending"   // chunks of a download follow
	Sent      State = "sent"      // those were all that were asked for
)

// maxRuns bounds the runs of missing chunks in a status.
const maxRuns = 100

func (d *Door) tell(j job, s Status) {
	s.ID = j.key.id
	payload, err := json.Marshal(s)
	if err == nil {
		_, err = d.opts.Publish(protocol.Only(j.key.owner), protocol.Message{
			Topic:       d.opts.Topics.VFS(protocol.GroupName(j.key.group), "status/"+j.key.id),
			Payload:     payload,
			QoS:         1,
			ContentType: protocol.ContentJSON,
		})
	}
	if err != nil {
		d.opts.Log.Warn("the status of a transfer is not published", "error", err)
	}
}

// refuse answers with an error. The state is that of the transfer, "" if there is
// none.
func (d *Door) refuse(j job, state State, err error) {
	known := protocol.AsError(err)
	if known.Code == protocol.Internal {
		d.opts.Log.Warn("a transfer failed", "error", err)
	}
	if state == "" {
		state = Failed
	}
	d.tell(j, Status{State: state, Error: known})
}

// decode reads parameters. Unknown ones are refused, lest a misspelt one be
// ignored.
func decode(payload []byte, into any) error {
	if len(bytes.TrimSpace(payload)) == 0 {
		return nil
	}
	if err := protocol.CheckJSON(payload, protocol.Limits{MaxBytes: 64 << 10, MaxDepth: 8}); err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return protocol.InvalidParam("payload", "is not the object that this topic takes: "+err.Error())
	}
	return nil
}

// number reads the number of a chunk as it stands in a topic.
func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, protocol.InvalidParam("chunk", "must have a number in the topic")
	}
	return int(n), nil
}
