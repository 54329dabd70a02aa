package rollout

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// orphanAge is the age at which members without a rollout are removed: by then no process
// is still storing their rollout.
const orphanAge = time.Hour

// sweep forgets old rollouts from time to time.
func (e *Engine) sweep() {
	tick := time.NewTicker(10 * time.Minute)
	defer tick.Stop()
	for {
		e.forget()
		select {
		case <-tick.C:
		case <-e.ctx.Done():
			return
		}
	}
}

// forget removes rollouts that ended too long ago, and members without a rollout.
func (e *Engine) forget() {
	before := e.opts.Clock.Settled().Add(-e.opts.KeepFor).UnixMilli()
	for _, r := range e.opts.Rollouts.All() {
		if r.ended() && r.EndedAt < before && !e.remove(r) {
			return
		}
	}
	before = e.opts.Clock.Settled().Add(-orphanAge).UnixMilli()
	e.discardOrphans(before)
	for key, p := range e.opts.Parts.All() {
		id, _, _ := strings.Cut(key, "/")
		if _, _, ok := e.opts.Rollouts.Get(id); !ok && p.MadeAt < before {
			if err := e.opts.Parts.Delete(e.ctx, key, 0); err != nil && protocol.CodeOf(err) != protocol.NotFound {
				return
			}
		}
	}
}

// forgetOldest removes ended rollouts that counts selects until the selected ones
// keep few enough members, and reports whether they do.
func (e *Engine) forgetOldest(counts func(*Rollout) bool, most int) bool {
	var ended []*Rollout
	kept := 0
	for _, r := range e.opts.Rollouts.All() {
		if !counts(r) {
			continue
		}
		kept += r.Parts * partSize
		if r.ended() {
			ended = append(ended, r)
		}
	}
	slices.SortFunc(ended, func(a, b *Rollout) int { return cmp.Compare(a.EndedAt, b.EndedAt) })
	for _, r := range ended {
		if kept <= most || !e.remove(r) {
			break
		}
		kept -= r.Parts * partSize
	}
	return kept <= most
}

// remove removes a rollout before its members.
func (e *Engine) remove(r *Rollout) bool {
	_, revision, ok := e.opts.Rollouts.Get(string(r.ID))
	if !ok {
		return true
	}
	if err := e.opts.Rollouts.Delete(e.ctx, string(r.ID), revision); err != nil {
		e.opts.Log.Warn("an old rollout is not forgotten", "task", r.ID, "error", err)
		return false
	}
	e.removeParts(e.ctx, r)
	return true
}

func (e *Engine) removeParts(ctx context.Context, r *Rollout) {
	for n := range maxMembers/partSize + 1 {
		if err := e.opts.Parts.Delete(ctx, partKey(r.ID, n), 0); err != nil {
			return // swept later
		}
	}
}

// discardOrphans removes waves that ended before a time and that no rollout waits
// for: the bridge died when it had taken their results.
func (e *Engine) discardOrphans(before int64) {
	var ended []protocol.TaskID
	for v := range e.opts.Waves.All() {
		if v.Rollout != "" && v.End != nil && v.End.At < before {
			ended = append(ended, v.ID)
		}
	}
	if len(ended) == 0 {
		return
	}
	held := make(map[protocol.TaskID]bool)
	for _, p := range e.opts.Parts.All() {
		for _, w := range p.Waves {
			held[w.Task] = true
		}
	}
	for _, id := range ended {
		if held[id] {
			continue
		}
		if err := e.opts.Waves.Discard(e.ctx, id); err != nil {
			e.opts.Log.Warn("an old wave is not forgotten", "task", id, "error", err)
			return
		}
	}
}
