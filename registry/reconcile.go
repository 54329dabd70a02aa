package registry

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
	"github.com/aibridge/aibridge/registry/effects"
)

// The pace at which outcomes are asked for that are not known.
const (
	reconcileEvery   = 10 * time.Second // without a call of stirDoubts
	reconcileTimeout = 10 * time.Second
	reconcileAtOnce  = 4 // in a space
	// notDoneAfter is the time that a deed must have been in doubt before it counts as
	// not done: an agent may still be at work on it.
	notDoneAfter = 5 * time.Second
)

// byBridge is the settler of deeds whose outcome the bridge itself asked for.
const byBridge = "bridge"

// stirDoubts has outcomes asked for that are not known: a caller waits for one, or an
// agent has come back. It does not block.
func (s *Service) stirDoubts() {
	select {
	case s.inDoubt <- struct{}{}:
	default:
	}
}

// reconcile asks for outcomes that are not known, until ctx ends.
func (s *Service) reconcile(ctx context.Context) {
	if s.effects == nil {
		return
	}
	tick := time.NewTicker(reconcileEvery)
	defer tick.Stop()
	soon := time.NewTimer(0)
	defer soon.Stop()
	rounds := rounds{running: make(map[protocol.SpaceID]bool), early: make(chan struct{}, 1)}
	defer rounds.all.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-rounds.early:
			soon.Reset(notDoneAfter / 5)
			continue
		case <-tick.C:
			s.effects.Sweep(ctx)
		case <-s.inDoubt:
		case <-soon.C:
		}
		s.reconcileAll(ctx, &rounds)
	}
}

// rounds are the rounds in which the doubtful deeds of spaces are asked about. Each
// has its own, so that silent agents of one space keep no other waiting.
type rounds struct {
	all   sync.WaitGroup
	early chan struct{} // a deed was asked about too early, and has to be again soon

	mu      sync.Mutex
	running map[protocol.SpaceID]bool // and whether another one was wanted meanwhile
}

// begin reports whether a round of a space may begin. One that runs is followed by
// another.
func (r *rounds) begin(space protocol.SpaceID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, runs := r.running[space]
	r.running[space] = runs
	return !runs
}

// end reports whether the round of a space is to be followed by another.
func (r *rounds) end(space protocol.SpaceID) (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	again = r.running[space]
	delete(r.running, space)
	return again
}

// reconcileAll has each doubtful deed asked about once.
func (s *Service) reconcileAll(ctx context.Context, rounds *rounds) {
	doubts := make(map[protocol.SpaceID][]*effects.Record)
	for _, r := range s.effects.Doubtful(ctx) {
		doubts[r.Space] = append(doubts[r.Space], r)
	}
	for space, deeds := range doubts {
		if !rounds.begin(space) {
			continue
		}
		rounds.all.Go(func() {
			if s.reconcileSpace(ctx, deeds) {
				select {
				case rounds.early <- struct{}{}:
				default:
				}
			}
			if rounds.end(space) {
				s.stirDoubts()
			}
		})
	}
}

// reconcileSpace asks about deeds of a space. It reports whether some were found not
// to be done and have to be looked at again soon.
func (s *Service) reconcileSpace(ctx context.Context, deeds []*effects.Record) bool {
	var asking sync.WaitGroup
	var early atomic.Bool
	places := make(chan struct{}, reconcileAtOnce)
	for _, r := range deeds {
		places <- struct{}{}
		asking.Go(func() {
			defer func() { <-places }()
			if s.reconcileOne(ctx, r) {
				early.Store(true)
			}
		})
	}
	asking.Wait()
	return early.Load()
}

// reconcileOne asks about a deed, and settles it if the answer tells. It reports
// whether the deed seems not to be done, but it is too early to settle that.
func (s *Service) reconcileOne(ctx context.Context, r *effects.Record) (early bool) {
	skill, _, ok := s.opts.Skills.Get(tableKey(r.Space, r.Skill))
	if !ok {
		return false
	}
	capability, ok := skill.capability(r.Capability)
	if !ok || capability.Reconcile.IsZero() {
		return false
	}
	result, ok := s.askAbout(ctx, skill, capability.Reconcile.Capability, r)
	if !ok {
		return false
	}
	done, known := capability.Reconcile.Judge(result)
	switch {
	case !known:
		return false
	case !done && time.Since(time.UnixMilli(r.Ended)) < notDoneAfter:
		return true
	}
	if _, err := s.effects.Settle(ctx, r.Space, r.ID, done, byBridge, "asked "+string(capability.Reconcile.Capability)); err != nil && ctx.Err() == nil {
		s.log.Warn("an unknown outcome is not settled", "skill", r.Skill, "effect", r.ID, "error", err)
	}
	return false
}

// askAbout asks the agent that may have done a deed, or one that serves the skill
// if it is not known. ok is whether there was an answer.
func (s *Service) askAbout(ctx context.Context, skill *SkillRecord, read protocol.CapabilityID, r *effects.Record) (result []byte, ok bool) {
	capability, ok := skill.capability(read)
	if !ok || s.checkParams(capability, r.Question) != nil {
		return nil, false
	}
	var peers []ask.Peer
	for _, p := range s.peers(nil, skill, nil) {
		if r.Agent == "" || p.Agent == nil || p.Agent.Key().ID == r.Agent {
			peers = append(peers, p)
		}
	}
	if len(peers) == 0 {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	call := &commands.Call{TraceID: r.Trace, Priority: protocol.Medium, Deadline: deadline}
	call.SendEventsTo(func(string, any) {})
	v := &invocation{service: s, skill: skill, capability: capability, began: time.Now()}
	answered := make(chan bool, 1)
	v.done = func(got InvokeSkillResult, err error) {
		result = append([]byte(nil), got.Data...)
		answered <- err == nil
	}
	v.Request = ask.Request{
		Command: ask.InvokeCommand, Params: ask.InvokeParams(skill.ID, read, r.Question), Call: call,
		Callee: v, Idempotent: false, Listener: v,
	}
	s.asking.Ask(ctx, &v.Request, peers)
	return result, <-answered
}

// effectSettled notifies operators of a deed whose outcome was found out.
func (s *Service) effectSettled(r *effects.Record) {
	s.log.Info("an unknown outcome is settled", "skill", r.Skill, "capability", r.Capability, "effect", r.ID, "outcome", r.State, "by", r.SettledBy)
	s.change("skill", "skill.effect.settled", effectEvent{r.Space, r.View()})
}

// An effectEvent is the data of an event about a deed.
type effectEvent struct {
	Space protocol.SpaceID `json:"space_id"`
	effects.View
}

func (e effectEvent) space() protocol.SpaceID { return e.Space }
