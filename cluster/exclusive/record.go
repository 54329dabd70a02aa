package exclusive

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/protocol"
)

// A Record names the session that has the exclusive subscription to a topic.
type Record struct {
	Space  protocol.SpaceID `json:"space"`  // of the session and the topic
	Topic  string           `json:"topic"`  // without $exclusive/; it may have wildcards
	Client string           `json:"client"` // id of the client
	// Process is the one to which the client was connected last.
	Process cluster.Node   `json:"process"`
	For     protocol.Party `json:"for"` // owner of the session
}

// KeptFor returns the party whose budget of records this one counts against.
func (r *Record) KeptFor() protocol.Party { return r.For }

func (r *Record) session() broker.SessionID {
	return broker.SessionID{Space: r.Space, Client: r.Client}
}

// keyOf is the key of a topic's record. It is a hash, since a topic may be longer than
// keys can be.
func keyOf(space protocol.SpaceID, topic string) string {
	sum := sha256.Sum256([]byte(string(space) + "\x00" + topic))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// counts reports whether a record is valid, so that no other session gets its topic.
// The owner is the bridge that has the session, "" for a session that is not kept.
func (r *Record) counts(owner string, alive func(cluster.Node) bool) bool {
	return owner != "" || alive(r.Process)
}

// isOf reports whether a bridge has to delete a record once the session has lost the
// topic on that bridge: true unless the session has moved to another one since.
func (r *Record) isOf(bridge, owner string) bool {
	return r.Process.ID == bridge && (owner == "" || owner == bridge)
}
