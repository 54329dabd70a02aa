package commands

import "context"

// An Audience is the party that waits for the answer to a request.
type Audience interface {
	// Gone returns a context that ends when the client has gone, or nil if that
	// will not be known. It is called for [Spec.Abandonable] commands only.
	Gone() context.Context
}

// A ReturnAddress is the MQTT topic to which messages about a call are sent after its
// answer.
type ReturnAddress struct {
	Topic       string `json:"topic"`
	Correlation []byte `json:"correlation,omitempty"`
	QoS         byte   `json:"qos,omitempty"`
}

// An Addressed audience can get messages after the answer.
type Addressed interface {
	Audience
	ReturnAddress() ReturnAddress
}

// ReturnAddress is the address for messages to the caller after the answer, nil if
// there is none. It is for the handler of the call.
func (c *Call) ReturnAddress() *ReturnAddress {
	a, ok := c.audience.(Addressed)
	if !ok {
		return nil
	}
	address := a.ReturnAddress()
	return &address
}

// watch has a call end when its audience is gone, if its command is such.
func (r *Router) watch(c *Call, who Audience) {
	if who == nil || c.command == nil || !c.command.Abandonable {
		return
	}
	if gone := who.Gone(); gone != nil {
		c.unwatch = context.AfterFunc(gone, func() { r.abandon(c) })
	}
}

// abandon ends a call whose client has gone, unless a repeat of the request waits
// for its answer. A later repeat is run anew.
func (r *Router) abandon(c *Call) {
	if c.answered.Load() || r.ledger.joined(c) {
		return
	}
	c.abandoned.Store(true)
	c.own.end(context.Canceled)
}

// joined reports whether others wait for the answer of a call.
func (l *ledger) joined(c *Call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.runs(l.key(l.party(c.Principal.Party()), c.RequestID))
	return e != nil && e.owner == c && len(e.joined) > 0
}
