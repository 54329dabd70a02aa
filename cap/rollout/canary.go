package rollout

import "fmt"

// judgeCanary decides whether all others may be asked, once the canary's members
// have ended. It reports whether it decided anything.
func (r *run) judgeCanary(rec *Rollout, c *Counts) (moved bool, err error) {
	canary := rec.Plan.Rollout.Canary
	if canary == nil || rec.Passed {
		return false, nil
	}
	if c.begun() < canary.Count && c.Queued > c.Retried || c.InProgress > 0 || c.Retried > 0 || c.ended() == 0 {
		return false, nil
	}
	if canary.Wait == "approval" {
		_, err := r.e.change(r.gone, r.id, func(now *Rollout) error {
			if now.Status == Running {
				now.Approval = string(now.ID) + "-canary"
				r.e.become(now, Waiting, "somebody has to approve of what the canary did")
			}
			return nil
		})
		return true, err
	}
	percent := canary.Percent
	if percent == 0 {
		percent = 100
	}
	if c.Succeeded*100 < percent*c.ended() {
		r.e.metrics.aborted()
		return true, r.move(rec, Aborted, fmt.Sprintf("%d of the %d members of the canary succeeded: %d percent have to", c.Succeeded, c.ended(), percent))
	}
	return true, r.pass(rec)
}

// pass lets all others be asked.
func (r *run) pass(rec *Rollout) error {
	_, err := r.e.change(r.gone, r.id, func(now *Rollout) error {
		if now.Status == rec.Status {
			now.Passed = true
			r.e.become(now, Running, "")
		}
		return nil
	})
	return err
}

// awaitApproval asks people, and does as they decided.
func (r *run) awaitApproval(rec *Rollout) (moved bool, err error) {
	counts, _ := r.known()
	if err := r.e.opts.Approver.Ask(r.gone, Question{rec.Approval, rec, counts}); err != nil {
		return false, err
	}
	switch a := r.e.opts.Approver.Answer(rec.Approval); {
	case !a.Decided:
		return false, nil
	case a.Approved:
		if err := r.pass(rec); err != nil {
			return true, err
		}
		return true, r.e.opts.Approver.Passed(r.gone, rec.Approval)
	default:
		return true, r.move(rec, Called, a.Reason)
	}
}
