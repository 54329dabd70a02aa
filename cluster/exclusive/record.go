package exclusive

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/protocol"
)

// A Record says which session has a topic alone.
type Record struct {
	Space  protocol.SpaceID `json:"space"`  // of the session and the topic
	Topic  string           `json:"topic"`  // without $exclusive/; it may have wildcards
	Client string           `json:"client"` // id of the client
	// Process is where the client was connected last.
	Process cluster.Node   `json:"process"`
	For     protocol.Party `json:"for"` // whose session it is
}

// KeptFor is the party whose budget of records the subscription uses.
func (r *Record) KeptFor() protocol.Party { return r.For }

func (r *Record) session() broker.SessionID {
	return broker.SessionID{Space: r.Space, Client: r.Client}
}

// keyOf is the key of the record of a topic, which may be longer than keys can be.
func keyOf(space protocol.SpaceID, topic string) string {
	sum := sha256.Sum256([]byte(string(space) + "\x00" + topic))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// counts reports whether a record keeps others from its topic. The owner is the bridge
// that has the session, "" if it is not kept.
func (r *Record) counts(owner string, alive func(cluster.Node) bool) bool {
	return owner != "" || alive(r.Process)
}

// isOf reports whether a bridge has to delete a record once the session does not have
// the topic there: no other one has got the session from it since.
func (r *Record) isOf(bridge, owner string) bool {
	return r.Process.ID == bridge && (owner == "" || owner == bridge)
}
