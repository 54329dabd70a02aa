package registry

import (
	"cmp"
	"encoding/json"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/effects"
)

// checkEffects checks the effect keys of capabilities.
func (s *Skill) checkEffects() error {
	for i := range s.Capabilities {
		if field, reason := s.checkEffect(&s.Capabilities[i]); reason != "" {
			return protocol.InvalidParam(itemPath("capabilities", i, field), reason)
		}
	}
	return nil
}

func (s *Skill) checkEffect(c *Capability) (field, reason string) {
	switch {
	case c.EffectKey == "" && c.EffectWindow != 0:
		return "effect_window_ms", "is of no use without effect_key"
	case c.EffectKey == "" && !c.Reconcile.IsZero():
		return "reconcile", "needs effect_key, which says what deed it asks about"
	case c.EffectKey == "":
		return "", ""
	case c.Effect == Reads:
		return "effect_key", "is for what acts, and the effect of this capability is read"
	case c.Sealed != "":
		return "effect_key", "cannot be made of params that are sealed"
	}
	key, err := effects.ParseTemplate(c.EffectKey)
	if err == nil {
		err = key.CheckKey(effects.ShapeOf(c.ParamsSchema.String()))
	}
	if err != nil {
		return "effect_key", err.Error()
	}
	if c.Reconcile.IsZero() {
		return "", ""
	}
	return s.checkReconcile(c)
}

// checkReconcile checks the read that settles deeds of a capability in doubt.
func (s *Skill) checkReconcile(c *Capability) (field, reason string) {
	r := &c.Reconcile
	read, ok := s.capability(r.Capability)
	switch {
	case !ok:
		return "reconcile.capability_id", s.noCapability(r.Capability).Message
	case read.Effect != Reads:
		return "reconcile.capability_id", "must name a capability whose effect is read"
	case read.Sealed == SealedRequired:
		return "reconcile.capability_id", "names a capability that the bridge cannot ask: its params must be sealed"
	case r.Done.Empty():
		return "reconcile.done_when", "must have at least one member"
	}
	asked, told := effects.ShapeOf(read.ParamsSchema.String()), effects.ShapeOf(read.ResultSchema.String())
	for _, check := range []struct {
		field string
		err   error
	}{
		{"reconcile.params", asked.CheckMembers(r.Params, "the params_schema of "+string(read.ID))},
		{"reconcile.params", r.CheckTemplates(effects.ShapeOf(c.ParamsSchema.String()))},
		{"reconcile.done_when", told.CheckMembers(r.Done, "the result_schema of "+string(read.ID))},
		{"reconcile.not_done_when", told.CheckMembers(r.NotDone, "the result_schema of "+string(read.ID))},
	} {
		if check.err != nil {
			return check.field, check.err.Error()
		}
	}
	return "", ""
}

// keepsEffects refuses effect keys where the bridge keeps no effects.
func (s *Service) keepsEffects(skill *Skill) error {
	for i := range skill.Capabilities {
		if s.effects == nil && skill.Capabilities[i].EffectKey != "" {
			return protocol.InvalidParam("skill."+itemPath("capabilities", i, "effect_key"), "is not kept by this bridge")
		}
	}
	return nil
}

// deed is the deed that a call is about to do.
func (v *invocation) deed() (*effects.Record, error) {
	c, params := v.capability, v.params
	key, err := effects.ParseTemplate(c.EffectKey)
	if err != nil { // it was parsed when the skill was registered
		return nil, protocol.Wrap(protocol.Internal, err, "the effect key of the capability cannot be used")
	}
	text, identity, err := key.Key(params)
	if err != nil {
		return nil, protocol.InvalidParam("params", err.Error())
	}
	d := &effects.Record{
		ID:    effects.ID(v.skill.ID, c.ID, identity),
		Space: v.skill.Space, Skill: v.skill.ID, Capability: c.ID, Key: text,
		By: v.Call.Principal.Party(), Request: v.Call.RequestID, Trace: v.Call.TraceID,
		Window: cmp.Or(c.EffectWindow, effects.DefaultWindow),
	}
	if !c.Reconcile.IsZero() && !c.repeatable() {
		if d.Question, err = c.Reconcile.Question(params); err != nil {
			return nil, protocol.InvalidParam("params", err.Error())
		}
	}
	return d, nil
}

// EffectOf is the id of the deed of a call, "" if the capability declares no effect
// key, or the params do not fill its key.
func (s *Service) EffectOf(space protocol.SpaceID, skill protocol.SkillID, capability protocol.CapabilityID, params json.RawMessage) string {
	r, _, ok := s.opts.Skills.Get(tableKey(space, skill))
	if !ok {
		return ""
	}
	c, ok := r.capability(capability)
	if !ok || c.EffectKey == "" {
		return ""
	}
	key, err := effects.ParseTemplate(c.EffectKey)
	if err != nil {
		return ""
	}
	_, identity, err := key.Key(params)
	if err != nil {
		return ""
	}
	return effects.ID(skill, capability, identity)
}
