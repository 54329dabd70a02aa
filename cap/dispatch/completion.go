package dispatch

import "github.com/aibridge/aibridge/protocol"

// A Policy is the rule for the completion of a dispatch.
type Policy string

// The policies.
const (
	All      Policy = "all"      // when every member has answered
	Quorum   Policy = "quorum"   // when n have done it; the others go on
	First    Policy = "first"    // when n have done it; the others are cancelled
	Deadline Policy = "deadline" // at the deadline, with the members that have done it by then
)

// A Completion is a policy with its number. On the wire it may be the policy
// alone.
type Completion struct {
	Policy Policy `json:"policy" short:"true" enum:"all,quorum,first,deadline" doc:"condition of completion: all have done it, n have (quorum: the others go on; first: they are cancelled), or whoever has by the deadline"`
	N      int    `json:"n,omitempty" range:"1-1000" doc:"number that must have done it, for quorum and first"`
}

// Validate checks the rules that tags of fields cannot express.
func (c *Completion) Validate() error {
	counts := c.Policy == Quorum || c.Policy == First
	if counts && c.N == 0 {
		return protocol.InvalidParam("n", "is missing; "+string(c.Policy)+" needs the number of members")
	}
	if !counts && c.N != 0 {
		return protocol.InvalidParam("n", "does not apply to "+string(c.Policy)+"; leave it out")
	}
	return nil
}

// judge is the status of a dispatch with so many members of a total done and so
// many open; past says that its deadline has passed.
func (c Completion) judge(total, done, open int, past bool) Status {
	open = max(open, 0)
	over := open == 0 || past
	switch c.Policy {
	case Quorum, First:
		if done >= c.N {
			return Complete
		}
		over = over || done+open < c.N
	case Deadline:
		if over && done > 0 {
			return Complete
		}
	default:
		if done == total {
			return Complete
		}
	}
	switch {
	case !over:
		return InProgress
	case done > 0:
		return Partial
	}
	return Fruitless
}
