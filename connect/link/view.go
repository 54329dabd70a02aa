package link

import (
	"context"
	"fmt"
	"slices"

	"github.com/aibridge/aibridge/protocol"
)

// A Holder knows which bridge of a cluster runs the links.
type Holder interface {
	// Elsewhere is the id of the bridge that runs them, "" if it is this one.
	Elsewhere() string
	// Shows asks that bridge for the result of its [Service.Shows].
	Shows(ctx context.Context) ([]GetResult, error)
}

// Visible are the links that a principal may know of, as the bridge that runs them
// sees them: those of its space; all to a principal that sees every space, also those
// whose own principal is not known yet.
func (s *Service) Visible(ctx context.Context, to *protocol.Principal) []GetResult {
	return slices.DeleteFunc(s.anywhere(ctx), func(v GetResult) bool { return !to.Unbounded() && v.Space != to.Home() })
}

// anywhere are the links, wherever they run.
func (s *Service) anywhere(ctx context.Context) []GetResult {
	if s.Holder == nil || len(s.links) == 0 {
		return s.Shows()
	}
	holder := s.Holder.Elsewhere()
	if holder == "" {
		return s.Shows()
	}
	theirs, err := s.Holder.Shows(ctx)
	if err != nil {
		return s.unknown(holder, err)
	}
	return theirs
}

// unknown are the links of a bridge that does not answer, as they are configured.
func (s *Service) unknown(holder string, err error) []GetResult {
	all := s.Shows()
	for i := range all {
		v := &all[i]
		v.Bridge, v.State = holder, Unknown
		v.Problem = fmt.Sprintf("bridge %q, which runs the links, does not tell how they are: %v", holder, protocol.AsError(err).Message)
		if before, _, _ := s.Records.Get(v.Name); before != nil {
			v.Space = before.Space
		}
	}
	return all
}

// Shows are the links as they are on this bridge, by their order in the settings.
func (s *Service) Shows() []GetResult {
	all := make([]GetResult, 0, len(s.links))
	for _, l := range s.links {
		all = append(all, l.full())
	}
	return all
}

// look is the present state of the link.
func (l *Link) look() (View, Session) {
	l.mu.Lock()
	v := View{
		Name: l.config.Name, Bridge: l.service.BridgeID, State: l.state, Since: l.since.UnixMilli(), Problem: l.problem,
		URL: l.config.URL, Space: l.party.Space, Lost: l.lost,
	}
	l.mu.Unlock()
	var session Session
	if v.Space != "" {
		session, _ = l.service.Broker.Session(v.Space, l.id())
	}
	v.Waiting, v.Dropped = session.Queued+session.Inflight, session.Dropped
	return v, session
}

// full is the link with all that is known of it.
func (l *Link) full() GetResult {
	view, session := l.look()
	rules := l.rules()
	result := GetResult{
		View: view, ClientID: l.id(), RemoteID: l.clientThere(), Version: levelName(l.config.level()),
		Inflight: session.Inflight, Queued: session.Queued, Bytes: session.Bytes,
		Out: viewsOf(rules.Out), In: viewsOf(rules.In), Counts: []Count{}, Refused: []string{},
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	result.Principal = l.party.ID
	for _, outbound := range []bool{true, false} {
		result.Refused = append(result.Refused, l.refuses[direction(outbound)]...)
		if why := l.last[outbound]; why != "" {
			result.Refused = append(result.Refused, "a message "+directionName(outbound)+": "+why)
		}
		for _, outcome := range []string{outcomeCarried, outcomeRefused, outcomeLooped, outcomeUnmapped, outcomeTooLarge} {
			if n := l.counts[tally{outbound, outcome}]; n > 0 || outcome == outcomeCarried {
				result.Counts = append(result.Counts, Count{directionName(outbound), outcome, n})
			}
		}
	}
	return result
}
