package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/commands/status"
	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/protocol"
)

const (
	// removalPatience is the time in which leaders are elected in the place of those of
	// a dead bridge, and its sessions are served.
	removalPatience = 15 * time.Second
	// removalLook is the interval at which a removal looks for that.
	removalLook = 250 * time.Millisecond
)

// A remover removes bridges that have ended for good.
type remover struct {
	s      *state
	shared *relaying // nil where one bridge works at a time
}

// Remove implements [status.Remover]. What a removal that broke off has left to do is
// done when it is asked for again.
func (r *remover) Remove(ctx context.Context, by string, p status.RemoveParams) (result status.RemoveResult, err error) {
	m := r.s.Members
	if !m.Shared() {
		return result, protocol.Errorf(protocol.InvalidState, "bridge %q is in no cluster", m.Self().ID)
	}
	if err := r.ended(ctx, p.BridgeID); err != nil {
		return result, err
	}
	result.BridgeID = p.BridgeID
	if result.Kept, result.Already, err = r.known(ctx, p.BridgeID); err != nil {
		return result, err
	}
	if err := r.safe(ctx, p.BridgeID); err != nil {
		return result, err
	}
	if err := m.Remove(ctx, p.BridgeID, by); err != nil {
		return result, err
	}
	if r.s.NATS.Votes() {
		if err := r.takeVote(ctx, &result); err != nil {
			return result, err
		}
	}
	if r.shared != nil {
		result.ServedBy = r.shared.estates.ServedBy(p.BridgeID)
	}
	if err := m.Catchup(ctx); err != nil {
		return result, err
	}
	if result.Keepers < len(r.s.config.Cluster.Join) {
		result.Address = m.Vacated(p.BridgeID)
	}
	r.s.log.Info("a bridge was removed from the cluster", "bridge", p.BridgeID, "by", by, "already", result.Already, "kept_state", result.Kept, "keepers", result.Keepers, "lacking_copies", result.Lacking)
	return result, nil
}

// ended fails for a bridge that lives, as far as all know at the time of the call, or
// whose process runs.
func (r *remover) ended(ctx context.Context, id string) error {
	m := r.s.Members
	if err := m.Catchup(ctx); err != nil {
		return err
	}
	all := m.Members()
	if at := slices.IndexFunc(all, func(o cluster.Member) bool { return o.ID == id }); at >= 0 {
		alive := all[at]
		switch {
		case id == m.Self().ID:
			return protocol.Errorf(protocol.InvalidState, "bridge %q answers this request: drain it, and ask another one to remove it", id).With("bridge_id", id)
		case alive.State == cluster.Draining:
			return protocol.Errorf(protocol.InvalidState, "bridge %q drains: remove it once it has ended", id).With("bridge_id", id)
		}
		return protocol.Errorf(protocol.InvalidState, "bridge %q is a member, its record was renewed %d ms ago: drain it first (bridge.drain), or stop it; one that was killed is declared dead after %v of silence, and while leaders are elected later", id, alive.Age, cluster.SilentAfter).With("bridge_id", id)
	}
	if !r.s.NATS.Votes() {
		return nil
	}
	runs, err := r.s.NATS.Runs(ctx, id)
	if err == nil && runs {
		err = protocol.Errorf(protocol.InvalidState, "the process of bridge %q runs, although it is no member at the moment: stop it first", id).With("bridge_id", id)
	}
	return err
}

// known reports whether a bridge keeps the state, and whether it was removed before. It
// fails for one of which the cluster knows nothing.
func (r *remover) known(ctx context.Context, id string) (keeps, removed bool, err error) {
	known, removed, err := r.s.Members.Known(ctx, id)
	if err != nil {
		return false, false, err
	}
	if r.s.NATS.Votes() {
		voters, err := r.s.NATS.Voters(ctx)
		if err != nil {
			return false, false, r.noLeader(err)
		}
		keeps = slices.Contains(voters, natsd.VoterID(id))
	}
	if r.shared != nil {
		_, _, had := r.shared.records.Get(id)
		known = known || had
	}
	if !known && !keeps {
		return false, false, protocol.Errorf(protocol.NotFound, "the cluster has never known a bridge %q, or has forgotten it an hour after its end; there is nothing to remove", id).With("bridge_id", id)
	}
	return keeps, removed, nil
}

// safe waits until nothing that was acknowledged depends on a bridge, or returns the
// reason why it does.
func (r *remover) safe(ctx context.Context, id string) error {
	waiting, cancel := context.WithTimeout(ctx, removalPatience)
	defer cancel()
	look := time.NewTicker(removalLook)
	defer look.Stop()
	for {
		err := r.orphans(id)
		if err == nil {
			err = r.copiesLeft(waiting, id)
		}
		if err == nil {
			return nil
		}
		select {
		case <-look.C:
		case <-waiting.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
	}
}

// orphans fails while nobody serves the sessions of a bridge.
func (r *remover) orphans(id string) error {
	if r.shared == nil {
		return nil
	}
	record, _, there := r.shared.records.Get(id)
	if !there || record.Vacant || r.shared.estates.ServedBy(id) != "" {
		return nil
	}
	return protocol.Errorf(protocol.InvalidState, "no bridge serves the sessions of %q yet, which wait for that: the log of one of the bridges says why", id).With("bridge_id", id)
}

// copiesLeft fails unless, without a bridge, a living majority has all of each stream of
// which it is to have a copy.
func (r *remover) copiesLeft(ctx context.Context, id string) error {
	if !r.s.NATS.Votes() {
		return nil
	}
	streams, err := r.s.NATS.Streams(ctx)
	if err != nil {
		return protocol.Wrap(protocol.StoreUnavailable, err, "NATS does not say where its copies of the state are")
	}
	living := make(map[string]bool)
	for _, m := range r.s.Members.Members() {
		living[natsd.VoterID(m.ID)] = true
	}
	for _, s := range streams {
		if !s.Outlives(natsd.VoterID(id), living) {
			return protocol.Errorf(protocol.InvalidState, "without bridge %q most copies of the stream %q would be away or incomplete, and what was acknowledged might be lost: start the other bridges that are away first, and ask again once they have all of it", id, s.Name).With("bridge_id", id)
		}
	}
	return nil
}

// takeVote takes the server of a bridge out of those that keep the state.
func (r *remover) takeVote(ctx context.Context, result *status.RemoveResult) error {
	nats := r.s.NATS
	if err := nats.RemoveVoter(ctx, result.BridgeID); err != nil {
		return r.noLeader(err)
	}
	voters, err := nats.Voters(ctx)
	if err != nil {
		return r.noLeader(err)
	}
	streams, err := r.moved(ctx, result.BridgeID)
	if err != nil {
		return err
	}
	result.Keepers = len(voters)
	for _, s := range streams {
		if len(s.On) < s.Wanted {
			result.Lacking++
		}
	}
	return nil
}

// moved waits until no stream is to have a copy on the server of a bridge, which NATS
// does after the server was removed, and returns the streams.
func (r *remover) moved(ctx context.Context, id string) ([]natsd.Stream, error) {
	waiting, cancel := context.WithTimeout(ctx, removalPatience)
	defer cancel()
	leaving := natsd.VoterID(id)
	look := time.NewTicker(removalLook)
	defer look.Stop()
	for {
		streams, err := r.s.NATS.Streams(waiting)
		if err == nil && !slices.ContainsFunc(streams, func(s natsd.Stream) bool { return s.Leader == "" || slices.Contains(s.On, leaving) }) {
			return streams, nil
		}
		select {
		case <-look.C:
		case <-waiting.Done():
			return nil, protocol.Errorf(protocol.StoreUnavailable, "bridge %q keeps the state no more, and NATS has yet to make the copies that it had on others; ask again to see how many are lacking", id).With("bridge_id", id)
		}
	}
}

// noLeader is the error of a removal that the servers of NATS have not stored. It may be
// asked for again.
func (r *remover) noLeader(err error) error {
	if errors.Is(err, natsd.ErrNoLeader) {
		return protocol.Wrap(protocol.StoreUnavailable, err, fmt.Sprintf("%v at the moment; ask again", err))
	}
	return protocol.Wrap(protocol.StoreUnavailable, err, "NATS does not answer; ask again")
}
