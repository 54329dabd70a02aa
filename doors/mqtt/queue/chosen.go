package queue

import (
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A Chosen names a queue of a space.
type Chosen struct {
	Queue string           `json:"queue" len:"1-69" audit:"yes" doc:"name of the queue; NAME/dead for the dead letters of NAME"`
	Space protocol.SpaceID `json:"space_id,omitempty" audit:"yes" doc:"space of the queue; that of the caller if absent"`
}

// Target is the queue.
func (c Chosen) Target() commands.Resource {
	return commands.Resource{Type: "queue", ID: c.Queue}
}

// By chooses messages by their publisher.
type By struct {
	Principal string `json:"principal,omitempty" len:"1-256" audit:"yes" doc:"only messages of this publisher, as kind/id or its id alone"`
}

// fits reports whether a publisher, as kind/id, is the one that was named so, or by its id
// alone, or none was.
func (b By) fits(publisher string) bool {
	return b.Principal == "" || published(publisher, b.Principal)
}

// find is the queue that a caller names.
func (k *Keeper) find(who *protocol.Principal, c Chosen) (lineKey, error) {
	space := c.Space
	if space == "" {
		space = who.Home()
	}
	key := lineKey{c.Queue, space}
	k.mu.Lock()
	defer k.mu.Unlock()
	if q := k.queues[c.Queue]; sees(who, space) && (q != nil && q.has(space) || k.lines[key] != nil) {
		return key, nil
	}
	return lineKey{}, protocol.Errorf(protocol.NotFound, "there is no queue %q", c.Queue).With("queue", c.Queue)
}

// manage is the queue that a caller names, and may change.
func (k *Keeper) manage(who *protocol.Principal, c Chosen) (lineKey, error) {
	key, err := k.find(who, c)
	if err == nil && !who.Manages(key.space) {
		err = protocol.Errorf(protocol.PermissionDenied, "the queues of a space are its operators'").With("queue", c.Queue)
	}
	return key, err
}
