package cluster

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Wire is the version of the protocol between bridges. Versions that differ by one are
// compatible.
const Wire = 2

const (
	recordSchema = 1
	maxRecord    = 16 << 10 // bytes of a record
	maxNote      = 1 << 10  // bytes of one note
	maxNotes     = 16
)

// A Record is the entry of a node in the stream.
type Record struct {
	Schema   int    `json:"v"`
	Instance string `json:"instance"` // of the process: tells runs apart that chose one epoch
	Renewals uint64 `json:"renewals"`
	// Agree has the settings in which all nodes of a cluster must agree.
	Agree map[string]string `json:"agree,omitempty"`
	// Keys are fingerprints of the secrets that all nodes must share, by file. A
	// serving node lists, separated by spaces, those of all versions of a file from
	// which the newest can be derived.
	Keys map[string]string `json:"keys,omitempty"`
	By   string            `json:"by,omitempty"` // id of the bridge that declared it dead
	// Removed is set for a bridge that has ended for good.
	Removed *Removal `json:"removed,omitempty"`
	// Calendar is the time by the clock of the node's machine, and Time that of the
	// cluster as it knows it, when the record was written; Unix milliseconds, 0 for
	// unknown.
	Calendar int64 `json:"calendar,omitempty"`
	Time     int64 `json:"time,omitempty"`
	Member
}

// ended reports whether the record is of a node that is no member any more.
func (r *Record) ended() bool { return r.State == Left || r.State == Dead }

// endedLife is the lifetime of the record of an ended node: 0 for no limit, where it
// keeps a copy of the state, or was removed.
func (r *Record) endedLife() time.Duration {
	if r.Keeps != "" || r.Removed != nil {
		return 0
	}
	return time.Hour
}

// encode returns the record in its stored form.
func (r *Record) encode() ([]byte, error) {
	data, err := json.Marshal(r)
	if err == nil && len(data) > maxRecord {
		err = fmt.Errorf("cluster: the record of this bridge takes %d bytes, %d is the limit", len(data), maxRecord)
	}
	return data, err
}

// An entry is a record where the stream has it.
type entry struct {
	id       string
	revision uint64
	record   Record
}

// decodeEntry parses the stored record of a node.
func decodeEntry(id string, revision uint64, data []byte) (entry, error) {
	e := entry{id: id, revision: revision}
	if len(data) > maxRecord {
		return e, fmt.Errorf("cluster: the record of %q takes %d bytes, %d is the limit", id, len(data), maxRecord)
	}
	if err := json.Unmarshal(data, &e.record); err != nil {
		return e, fmt.Errorf("cluster: the record of %q: %w", id, err)
	}
	r := &e.record
	switch {
	case r.Schema < 1:
		return e, fmt.Errorf("cluster: the record of %q has no version", id)
	case r.Schema > recordSchema:
		return e, protocol.Errorf(protocol.StoreUnavailable, "bridge %q writes records of version %d, this one reads up to %d: upgrade this one first", id, r.Schema, recordSchema)
	case r.ID != id:
		return e, fmt.Errorf("cluster: the record of %q says that it is of %q", id, r.ID)
	case len(r.Notes) > maxNotes:
		return e, fmt.Errorf("cluster: the record of %q has %d notes", id, len(r.Notes))
	}
	if r.Joined == 0 { // the first, which could not know
		r.Joined = revision
	}
	r.Revision = revision
	return e, nil
}
