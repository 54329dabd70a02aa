package quota

import (
	"fmt"

	"github.com/aibridge/aibridge/protocol"
)

// Reached lists the limits that a principal, or its space, has reached now, in
// words: rates and records. It takes nothing.
func (k *Keeper) Reached(who *protocol.Principal) (reached []string) {
	if unlimited(who) {
		return nil
	}
	own, space := k.limits(who)
	reached = k.reached(who.Party(), own, ofPrincipal)
	if !who.Administrator() {
		reached = append(reached, k.reached(protocol.Party{Space: who.Home()}, space, ofSpace)...)
	}
	party := who.Party()
	if most := k.records.own(party); most > 0 && k.records.Of(party) >= most {
		reached = append(reached, fmt.Sprintf("the %s has %d records registered, and may have no more", ofPrincipal, most))
	}
	return reached
}

// reached lists the limits that a party has reached.
func (k *Keeper) reached(p protocol.Party, l Limits, whose string) (reached []string) {
	s := k.shard(p)
	s.mu.RLock()
	a := s.of[p]
	s.mu.RUnlock()
	if a == nil {
		return nil
	}
	now := k.now()
	l = a.rated(l)
	for _, rate := range []struct {
		what   kind
		bucket *bucket
		most   int
	}{{requests, &a.requests, l.Requests}, {refusals, &a.refusals, l.Refusals}, {messages, &a.messages, l.Messages}, {bytes, &a.bytes, l.Bytes}} {
		if rate.most > 0 && rate.bucket.wait(now, rate.most) > 0 {
			reached = append(reached, fmt.Sprintf("the %s has used up its %d %s a second", whose, rate.most, rate.what))
		}
	}
	return reached
}
