package quota

import "github.com/aibridge/aibridge/protocol"

// A Level is the use of one limit of a party at this bridge.
type Level struct {
	Limit string `json:"limit"`
	Most  int64  `json:"most,omitempty"`  // 0 is no limit
	Rate  bool   `json:"rate,omitempty"`  // it is a second's
	Used  int64  `json:"used"`            // of a rate: the part that is not free again yet
	Share int64  `json:"share,omitempty"` // the part of a rate that this bridge gives; 0 for all of it
	Same  bool   `json:"same,omitempty"`  // all bridges count the same things
}

// A Holding is the counts of the broker for a party, or for a space: of these the keeper
// knows only the limits.
type Holding struct{ Sessions, Retained, RetainedBytes int }

// Levels are those of a principal, or of a space if the party has no id. They are
// looked up, and nothing is taken. A privileged principal has limits of its own.
func (k *Keeper) Levels(p protocol.Party, privileged bool, has Holding) []Level {
	l := k.options.Principal
	switch {
	case p.ID == "":
		l = k.options.Space
	case privileged:
		l = k.options.Privileged
	}
	levels := k.taken(p, l)
	held, most := k.records.In(p.Space), int64(k.records.limits.Space)
	if p.ID != "" {
		held, most = k.records.Of(p), int64(k.records.own(p))
	}
	return append(levels,
		Level{Limit: string(retained), Most: int64(l.Retained), Used: int64(has.Retained), Same: true},
		Level{Limit: string(retainedBytes), Most: int64(l.RetainedBytes), Used: int64(has.RetainedBytes), Same: true},
		Level{Limit: string(sessions), Most: int64(l.Sessions), Used: int64(has.Sessions)},
		Level{Limit: string(records), Most: most, Used: int64(held), Same: true})
}

// taken are the levels of rates and of connections.
func (k *Keeper) taken(p protocol.Party, l Limits) []Level {
	s := k.shard(p)
	s.mu.RLock()
	defer s.mu.RUnlock()
	a := s.of[p]
	if a == nil {
		a = new(account)
	}
	now, here := k.now(), a.rated(l)
	var levels []Level
	for _, rate := range []struct {
		what       kind
		bucket     *bucket
		most, here int
	}{
		{requests, &a.requests, l.Requests, here.Requests},
		{refusals, &a.refusals, l.Refusals, here.Refusals},
		{messages, &a.messages, l.Messages, here.Messages},
		{bytes, &a.bytes, l.Bytes, here.Bytes},
	} {
		level := Level{Limit: string(rate.what), Most: int64(rate.most), Rate: true, Used: rate.bucket.owed(now, rate.here)}
		if rate.here != rate.most {
			level.Share = int64(rate.here)
		}
		levels = append(levels, level)
	}
	return append(levels, Level{Limit: string(connections), Most: int64(l.Connections), Used: a.connections})
}

// owed is the sum that was taken and is not paid for yet.
func (b *bucket) owed(now int64, rate int) int64 {
	left := b.paid.Load() - now
	if rate <= 0 || left <= 0 {
		return 0
	}
	return int64(float64(left)/float64(window)*float64(rate) + 0.5)
}
