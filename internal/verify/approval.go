package verify

import (
	"context"

	"github.com/aibridge/aibridge/protocol"
)

// An asked holds the fields of an approval that are needed to decide on it.
type asked struct {
	ID    string `json:"approval_id"`
	Nonce string `json:"nonce"`
	State string `json:"state"`
}

func tryApproval(ctx context.Context, t *trials) error {
	before := t.device.count(dangerous)
	a, err := t.propose(ctx, before)
	if err != nil {
		return err
	}
	if _, err := t.decide(ctx, t.approver, asked{ID: a.ID, Nonce: "AAAAAAAAAAAAAAAAAAAAAAAA"}); err == nil {
		return breaks("an approval was decided with a wrong nonce")
	}
	if !t.config.Dev { // where all are the same principal
		if _, err := t.decide(ctx, t.operator, a); err == nil {
			return breaks("who asked decided about its own call: a policy permits approval:decide_own")
		}
	}
	state, err := t.decide(ctx, t.approver, a)
	switch {
	case err != nil:
		return forbidden("an operator decide about approvals", err)
	case state == "pending":
		return cannot("your rules want several people to agree to such a call")
	}
	if err := until(ctx, "the approved call is made", func() (bool, error) { return t.device.count(dangerous) > before, nil }); err != nil {
		return err
	}
	if a, err = t.propose(ctx, before+1); err != nil {
		return err
	}
	if err := t.declare(ctx, "Not as it was approved any more."); err != nil {
		return err
	}
	if _, err := t.decide(ctx, t.approver, a); err == nil {
		err = until(ctx, "the approval of the changed call is withdrawn", func() (bool, error) {
			if t.device.count(dangerous) != before+1 {
				return false, breaks("a call was made whose tool was declared otherwise after it was approved")
			}
			now := a
			err := t.approver.run(ctx, "approval.get", map[string]any{"approval_id": a.ID}, &now)
			return err == nil && now.State == "withdrawn", nil
		})
		if err != nil {
			return err
		}
	}
	if n := t.device.count(dangerous) - before; n != 1 {
		return breaks("the device was asked %d times for one approved call", n)
	}
	return nil
}

// propose has the model propose a call, and returns the approval that it waits for.
func (t *trials) propose(ctx context.Context, before int) (a asked, err error) {
	var answer struct {
		Finish  string `json:"finish_reason"`
		Waiting struct {
			Approval string `json:"approval_id"`
		} `json:"waiting"`
		Tools struct {
			Calls []struct {
				Text string `json:"text"`
			} `json:"calls"`
		} `json:"tools"`
	}
	err = t.operator.run(ctx, "llm.query", map[string]any{"query": "Do it.", "tools": []string{skillID + "." + dangerous}, "approval_wait_ms": 0}, &answer)
	switch {
	case codeOf(err) == protocol.NotFound:
		return a, cannot("your policies do not offer such a tool to the models of an operator")
	case err != nil:
		return a, forbidden("an operator ask a model with that tool", err)
	case t.device.count(dangerous) != before:
		return a, breaks("a model's call of high risk was made without an approval")
	case answer.Finish != "waiting" && len(answer.Tools.Calls) > 0:
		return a, cannot("models' calls of high risk are refused without asking: %s", answer.Tools.Calls[0].Text)
	case answer.Finish != "waiting":
		return a, cannot("the model's call did not wait for an approval, but ended with %q", answer.Finish)
	}
	err = t.approver.run(ctx, "approval.get", map[string]any{"approval_id": answer.Waiting.Approval}, &a)
	return a, forbidden("an operator see approvals", err)
}

// decide approves of a call, and returns the state of the approval then.
func (t *trials) decide(ctx context.Context, c *caller, a asked) (state string, err error) {
	var decided asked
	err = c.do(ctx, protocol.NewID(), "approval.decide", map[string]any{"approval_id": a.ID, "nonce": a.Nonce, "decision": "approve"}, &decided)
	return decided.State, err
}
