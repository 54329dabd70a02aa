package audit

import (
	"context"
	"time"
)

// Details of the entry by which a bridge closes the chain of another that has ended.
const (
	closedBridge = "bridge"
	closedChain  = "chain"
	closedHead   = "head"
)

// A Closing records where the chain of a bridge ended when another bridge found it
// abandoned. It is an entry in the chain of that other one, sealed with its key: each
// bridge alone writes into its chain, and a thief of the first bridge's key alone cannot
// cut off the end.
type Closing struct {
	Bridge string // whose chain it is
	Chain  string
	Head   Head
	By     string
	At     time.Time
}

// CloseChain records in the trail of this bridge the end of the chain of another, which has ended
// without recording it, and returns that head. It does nothing and returns false if there is no
// such end: the chain is empty, its bridge has stopped it, or it was closed at a head already.
func (t *Trail) CloseChain(ctx context.Context, c Chain, closedAt Head) (head Head, closed bool, err error) {
	g, err := lastGroup(ctx, c.Log)
	if g == nil || err != nil || g.stopped() || g.head() == closedAt {
		return Head{}, false, err
	}
	if c.Key != nil && (g.chain != c.Key.chain || !g.genuine(c.Key)) {
		return Head{}, false, nil // a forged end gets no closing
	}
	head = g.head()
	t.Record(ctx, Entry{Event: Closed, Code: OK, Security: true, Resource: "bridge/" + c.Bridge,
		Reason:  "the bridge that wrote this chain ended without closing it",
		Details: map[string]string{closedBridge: c.Bridge, closedChain: g.chain.String(), closedHead: head.String()}})
	return head, true, t.Flush(ctx)
}

// stopped reports whether a group ends with the last word of its bridge.
func (g *group) stopped() bool {
	e, err := decode(g.entries[len(g.entries)-1], g.last())
	return err == nil && e.Event == stopped
}

// closing reads an entry by which another chain was closed.
func (e *Entry) closing(by string) (c Closing, ok bool) {
	if e.Event != Closed || e.Code != OK {
		return c, false
	}
	head, err := ParseHead(e.Details[closedHead])
	return Closing{Bridge: e.Details[closedBridge], Chain: e.Details[closedChain], Head: head, By: by, At: e.Time}, err == nil
}
