package end

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/client/agent/skill"
	"github.com/aibridge/aibridge/protocol"
)

// The pace of registration.
const (
	registerTimeout = 15 * time.Second
	firstRetry      = time.Second
	lastRetry       = time.Minute
)

// keepRegistered makes the bridge's knowledge follow the folders, from their
// first scan until ctx ends. A failed registration is tried again, less and
// less often, and logged when it fails in a new way.
func (a *agent) keepRegistered(ctx context.Context, to bridge) {
	k := registrar{agent: a, bridge: to, registered: map[protocol.SkillID]*skill.Skill{}, wrong: map[protocol.SkillID]string{}}
	var retry <-chan time.Time
	pause := firstRetry
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
			pause = firstRetry
		case <-retry:
		}
		retry = nil
		if !k.settle(ctx) {
			retry = time.After(pause)
			pause = min(2*pause, lastRetry)
		}
	}
}

// registrar knows the registrations at the bridge. It is used by one goroutine.
type registrar struct {
	*agent
	bridge     bridge
	asked      bool                              // the registrations of earlier runs were fetched
	begun      bool                              // all skills that were there were offered
	registered map[protocol.SkillID]*skill.Skill // by this run or an earlier one
	wrong      map[protocol.SkillID]string       // as last logged
}

// settle registers and unregisters what has changed, and reports whether the bridge
// is up to date.
func (k *registrar) settle(ctx context.Context) bool {
	k.mu.Lock()
	wanted := maps.Clone(k.skills)
	k.mu.Unlock()
	done := k.ask(ctx)
	for _, id := range slices.Sorted(maps.Keys(k.registered)) {
		if wanted[id] == nil {
			done = k.withdraw(ctx, id) && done
		}
	}
	if !k.begun {
		k.begun = true
		k.offerAll(ctx, wanted)
	}
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		if s := wanted[id]; k.registered[id] != s {
			done = k.offer(ctx, s) && done
		}
	}
	return done
}

// ask reads the registrations of an earlier run, so that skills whose
// folders went while no agent ran are unregistered too.
func (k *registrar) ask(ctx context.Context) bool {
	if k.asked {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	known, err := k.bridge.registered(ctx)
	if err != nil {
		return k.failed(ctx, "", "skills of an earlier run are not known", err)
	}
	k.asked = true
	for _, id := range known {
		if k.registered[id] == nil {
			k.registered[id] = &skill.Skill{}
		}
	}
	return true
}

// offerAll offers the skills together, so that no call that waited for the agent
// finds one of them missing.
func (k *registrar) offerAll(ctx context.Context, wanted map[protocol.SkillID]*skill.Skill) {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	var all []client.Skill
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		all = append(all, k.offerOf(wanted[id]))
	}
	for _, id := range k.bridge.offerAll(ctx, all) {
		k.offered(wanted[id])
	}
}

func (k *registrar) offer(ctx context.Context, s *skill.Skill) bool {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	if err := k.bridge.offer(ctx, k.offerOf(s)); err != nil {
		return k.failed(ctx, s.ID, "skill could not be registered", err)
	}
	k.offered(s)
	return true
}

// offered notes that the bridge knows a skill.
func (k *registrar) offered(s *skill.Skill) {
	k.registered[s.ID] = s
	delete(k.wrong, s.ID)
	k.o.Log.Info("skill registered", "skill", s.ID, "version", s.Version, "capabilities", len(s.Capabilities))
}

func (k *registrar) withdraw(ctx context.Context, id protocol.SkillID) bool {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	if err := k.bridge.withdraw(ctx, id); err != nil && protocol.CodeOf(err) != protocol.NotFound {
		return k.failed(ctx, id, "skill could not be unregistered", err)
	}
	delete(k.registered, id)
	delete(k.wrong, id)
	k.o.Log.Info("skill unregistered", "skill", id)
	return true
}

func (k *registrar) failed(ctx context.Context, id protocol.SkillID, what string, err error) bool {
	if wrong := what + err.Error(); k.wrong[id] != wrong && ctx.Err() == nil {
		k.wrong[id] = wrong
		k.o.Log.Warn(what, "skill", id, "error", err)
	}
	return false
}

// offerOf is a skill as the bridge gets to know it.
func (k *registrar) offerOf(s *skill.Skill) client.Skill {
	o := client.Skill{
		Join:        k.o.Joins[s.ID],
		ID:          s.ID,
		Name:        s.Name,
		Description: s.Description,
		Version:     s.Version,
		Type:        s.Type,
		Endpoints:   s.Endpoints,
	}
	for _, c := range s.Capabilities {
		o.Capabilities = append(o.Capabilities, client.Capability{
			ID:           c.ID,
			Name:         c.Name,
			Description:  c.Description,
			ParamsSchema: c.Params.JSON(),
			ResultSchema: c.Result.JSON(),
			Format:       c.Format,
			Effect:       c.Effect,
			Idempotent:   c.Idempotent,
			Risk:         c.Risk,
			EffectKey:    c.Deed.Key,
			EffectWindow: time.Duration(c.Deed.WindowMS) * time.Millisecond,
			Reconcile:    reconcileOf(c.Deed.Reconcile),
			Handler:      k.handle,
		})
	}
	if s.Documented && len(o.Capabilities) < skill.MaxCapabilities {
		o.Capabilities = append(o.Capabilities, documentCapability(s.Prompt, k.handle))
	}
	return o
}

// reconcileOf is a question about a deed as the bridge gets to know it.
func reconcileOf(r *skill.Reconcile) *client.Reconcile {
	if r == nil {
		return nil
	}
	return &client.Reconcile{Capability: r.Capability, Params: r.Params, Done: r.Done, NotDone: r.NotDone}
}
