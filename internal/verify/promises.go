package verify

import (
	"context"

	"github.com/aibridge/aibridge/protocol"
)

// promises are the ones tried on the running copy.
var promises = []promise{
	{"replay", "a request that came again was not run again, and its id with other params was refused (1005)", "a request with an id of its own is run", tryReplay},
	{"duplicate", "a second call of the same effect, under another id, was answered by the first", "a call of another effect is made", tryDuplicate},
	{"unknown outcome", "a call whose device hung up got 4012, and was not made again when it was repeated", "the same device answers other calls", tryUnknown},
	{"revoked credential", "a revoked key was refused", "it was good before", tryRevoked},
	{"rights", "an observer may not have a device act (2003)", "an operator may", tryRights},
	{"tenant isolation", "an operator of another space is answered about the skill and its agent as about what there is not", "an operator of the space sees them", tryIsolation},
	{"mutated approval", "a call whose tool was declared otherwise after it was shown was not made; nor was one decided by who asked, or with a wrong nonce", "a call as it was approved is made, once", tryApproval},
}

// forbidden is the error for a control that the operator's own policies refuse,
// which is no fault of the bridge.
func forbidden(what string, err error) error {
	if codeOf(err) == protocol.PermissionDenied {
		return cannot("your policies do not let %s, so there is nothing to compare with", what)
	}
	return err
}

func tryReplay(ctx context.Context, t *trials) error {
	before := t.device.count(acts)
	id := protocol.NewID()
	if err := t.invoke(ctx, t.operator, id, acts, nil); err != nil {
		return forbidden("an operator invoke a skill", err)
	}
	if err := t.invoke(ctx, t.operator, id, acts, nil); err != nil {
		return breaks("the repeat was refused: %s", err)
	}
	if n := t.device.count(acts) - before; n != 1 {
		return breaks("the device was asked %d times for one request", n)
	}
	if err := t.invoke(ctx, t.operator, id, acts, map[string]any{"other": true}); codeOf(err) != protocol.IDReused {
		return breaks("its id with other params was not refused: %v", err)
	}
	if err := t.invoke(ctx, t.operator, protocol.NewID(), acts, nil); err != nil {
		return err
	}
	if n := t.device.count(acts) - before; n != 2 {
		return breaks("the device was asked %d times for two requests", n)
	}
	return nil
}

func tryDuplicate(ctx context.Context, t *trials) error {
	before := t.device.count(actsOnce)
	for range 2 {
		if err := t.invoke(ctx, t.operator, protocol.NewID(), actsOnce, map[string]any{"what": "this"}); err != nil {
			return forbidden("an operator invoke a skill", err)
		}
	}
	if n := t.device.count(actsOnce) - before; n != 1 {
		return breaks("the device was asked %d times for the same effect", n)
	}
	if err := t.invoke(ctx, t.operator, protocol.NewID(), actsOnce, map[string]any{"what": "that"}); err != nil {
		return err
	}
	if n := t.device.count(actsOnce) - before; n != 2 {
		return breaks("another effect was taken for the same")
	}
	return nil
}

func tryUnknown(ctx context.Context, t *trials) error {
	if err := t.invoke(ctx, t.operator, protocol.NewID(), acts, nil); err != nil {
		return forbidden("an operator invoke a skill", err)
	}
	before, id := t.device.count(vanishes), protocol.NewID()
	for _, when := range []string{"", " when it was repeated"} {
		if err := t.invoke(ctx, t.operator, id, vanishes, nil); codeOf(err) != protocol.OutcomeUnknown {
			return breaks("the call whose device hung up was answered with %v%s, not with 4012", err, when)
		}
	}
	if n := t.device.count(vanishes) - before; n != 1 {
		return breaks("the device was asked %d times", n)
	}
	return nil
}

func tryRevoked(ctx context.Context, t *trials) error {
	if t.config.Dev {
		return cannot("with --dev there are no credentials: everybody on this machine may do everything")
	}
	c, id, err := t.newKey(ctx, "verify-revoked", protocol.RoleOperator, "")
	if err != nil {
		return err
	}
	if err := c.run(ctx, "skill.discover", map[string]any{}, nil); err != nil {
		return forbidden("an operator discover skills", err)
	}
	if err := t.admin.run(ctx, "key.revoke", map[string]any{"key_id": id}, nil); err != nil {
		return err
	}
	err = c.run(ctx, "skill.discover", map[string]any{}, nil)
	if code := codeOf(err); code != protocol.CredentialInvalid && code != protocol.NotAuthenticated {
		return breaks("a revoked key is answered with %v", err)
	}
	return nil
}

func tryRights(ctx context.Context, t *trials) error {
	if t.config.Dev {
		return cannot("with --dev everybody on this machine may do everything")
	}
	if err := t.invoke(ctx, t.operator, protocol.NewID(), acts, nil); err != nil {
		return forbidden("an operator invoke a skill", err)
	}
	before := t.device.count(acts)
	if err := t.invoke(ctx, t.observer, protocol.NewID(), acts, nil); codeOf(err) != protocol.PermissionDenied {
		return breaks("an observer had a device act: your policies permit more than the roles say; see aibridge policy explain --role observer --principal operator:verify --action skill:invoke")
	}
	if t.device.count(acts) != before {
		return breaks("the device was asked although the call was refused")
	}
	return nil
}

func tryIsolation(ctx context.Context, t *trials) error {
	if t.config.Dev {
		return cannot("with --dev everybody on this machine may do everything")
	}
	var seen struct {
		Total int `json:"total"`
	}
	look := map[string]any{"text": skillID}
	if err := t.operator.run(ctx, "skill.discover", look, &seen); err != nil || seen.Total == 0 {
		if err == nil {
			err = cannot("an operator of the space does not find the skill")
		}
		return forbidden("an operator discover skills", err)
	}
	before := t.device.count(acts)
	for _, try := range []struct{ command, what, name, none, space string }{
		{"skill.invoke", "skill_id", skillID, "verify-none", ""},
		{"skill.invoke", "skill_id", skillID, "verify-none", string(protocol.DefaultSpace)},
		{"agent.get", "agent_id", deviceID, "verify-none", ""},
		{"agent.get", "agent_id", deviceID, "verify-none", string(protocol.DefaultSpace)},
		{"skill.discover", "space_id", string(protocol.DefaultSpace), "verify-nowhere", ""},
	} {
		ask := func(name string) error {
			params := map[string]any{try.what: name}
			if try.command == "skill.invoke" {
				params["capability_id"] = acts
			}
			if try.space != "" {
				params["space_id"] = try.space
			}
			return t.stranger.run(ctx, try.command, params, nil)
		}
		is, none := ask(try.name), ask(try.none)
		if is == nil || codeOf(is) != codeOf(none) {
			return breaks("%s of an operator of another space was answered with %v, and about what there is not with %v", try.command, is, none)
		}
	}
	if err := t.stranger.run(ctx, "skill.discover", look, &seen); err != nil || seen.Total != 0 {
		return breaks("an operator of another space finds %d skills (%v)", seen.Total, err)
	}
	if t.device.count(acts) != before {
		return breaks("the device was asked for somebody of another space")
	}
	return nil
}
