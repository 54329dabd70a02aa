package drill

import "github.com/aibridge/aibridge/protocol"

// The streams of requests.
const (
	streamCall         = "call"
	streamTask         = "task"
	streamRegistration = "registration"
	streamProbe        = "probe" // of a node that reports readiness
)

// A call is a request with its outcome.
type call struct {
	stream   string
	asked    int // index
	executed int
	answered bool
	code     string
	state    string // of a task at the end of the round
}

// The states of tasks in the checks.
const (
	statePending   = "pending"
	stateRunning   = "running"
	stateSucceeded = "succeeded"
)

// succeeded reports whether the caller learned of the success of the call, and not only
// of its beginning.
func (c *call) succeeded() bool {
	if c.stream == streamTask {
		return c.state == stateSucceeded
	}
	return c.answered && c.code == ""
}

// calls checks executions against answers.
func (j *judge) calls() {
	calls := make(map[string]*call)
	var ids []string
	for i, e := range j.history {
		if isWork(e.Stream) || isStep(e) {
			continue // see works
		}
		switch e.Kind {
		case Asked:
			calls[e.ID] = &call{stream: e.Stream, asked: i}
			ids = append(ids, e.ID)
		case Executed:
			if c := calls[e.ID]; c != nil {
				c.executed++
			} else {
				j.breach(AtMostOnce, i, "%s ran %s, which nobody asked for", e.Client, e.ID)
			}
		case Answered:
			if c := calls[e.ID]; c != nil {
				c.answered, c.code = true, e.Code
			}
		case Ended:
			if e.Code == stateRunning || e.Code == statePending {
				j.breach(TasksEnd, i, "the task of %s is still %s", e.ID, e.Code)
			}
			if c := calls[e.ID]; c != nil {
				c.state = e.Code
			}
		}
	}
	for _, id := range ids {
		j.call(id, calls[id])
	}
}

func (j *judge) call(id string, c *call) {
	t := &j.at(c.asked).tally
	if c.stream == streamProbe && c.executed < 2 {
		return // probes do not insist
	}
	if !c.answered {
		j.breach(AlwaysAnswer, c.asked, "the %s %s was never answered", c.stream, id)
	}
	if c.stream == streamRegistration {
		return
	}
	t.Calls++
	if c.succeeded() {
		t.Succeeded++
	}
	if c.code == string(protocol.OutcomeUnknown) {
		t.Unknown++
	}
	switch {
	case c.executed > 1:
		t.Twice += c.executed - 1
		j.breach(AtMostOnce, c.asked, "the %s %s ran %d times", c.stream, id, c.executed)
	case c.succeeded() && c.executed == 0:
		j.breach(AtMostOnce, c.asked, "the %s %s succeeded and never ran", c.stream, id)
	case c.answered && c.executed > 0 && !mayHaveRun(protocol.Code(c.code)):
		j.breach(AtMostOnce, c.asked, "the %s %s was refused with %s, and ran", c.stream, id, c.code)
	}
}

// mayHaveRun reports whether a call with this answer may have had an effect.
func mayHaveRun(code protocol.Code) bool {
	switch code {
	case "", protocol.OutcomeUnknown, protocol.TimedOut, protocol.Cancelled, protocol.Internal, protocol.TargetUnavailable:
		return true
	}
	return false
}

// stored checks registrations and retained messages on every node.
func (j *judge) stored() {
	acked := make(map[string]int) // number, by stream
	for i, e := range j.history {
		switch e.Kind {
		case Acked:
			acked[e.Stream] = max(acked[e.Stream], e.Number)
		case Retained:
			if want := acked[e.Stream]; e.Number < want {
				j.at(i).tally.StoredLost++
				j.breach(RetainedLast, i, "%s has %d as the retained message of %s, and %d was acknowledged", e.Node, e.Number, e.Stream, want)
			}
		case Stored:
			if e.Code != "" {
				j.at(i).tally.StoredLost++
				j.breach(Registered, i, "%s was acknowledged, and %s answers %s", e.ID, e.Node, e.Code)
			}
		}
	}
}
