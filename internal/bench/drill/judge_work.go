package drill

import "github.com/aibridge/aibridge/protocol"

// A work is a job of a model, with its outcome.
type work struct {
	stream   string
	asked    int // index
	steps    int
	answered bool
	at       string // the bridge that answered
	code     string
	waits    bool   // it continues after the answer
	agreed   int    // index of the beginning of its approval, -1 for none
	decided  string // the bridge that took it down
	done     bool   // it has ended
	state    string // in which it is then
}

// A workStep is one call of a tool in a work.
type workStep struct {
	wanted   int // index, -1 for never
	executed int
	began    int // index of the first execution
	heard    bool
	code     string // result for the model, the best of several
}

// works checks that all works ended, and that each of their steps ran once.
func (j *judge) works() {
	works, steps := make(map[string]*work), make(map[string]*workStep)
	var ids, stepIDs []string
	for i, e := range j.history {
		if e.Kind == Asked && isWork(e.Stream) {
			works[e.ID] = &work{stream: e.Stream, asked: i, steps: e.Number, agreed: -1}
			ids = append(ids, e.ID)
		}
		if isStep(e) && steps[e.ID] == nil {
			steps[e.ID] = &workStep{wanted: -1}
			stepIDs = append(stepIDs, e.ID)
		}
		switch {
		case isStep(e):
			j.noteStep(steps[e.ID], i)
		case works[e.ID] != nil:
			works[e.ID].note(i, e)
		}
	}
	for _, id := range stepIDs {
		j.step(id, steps[id], works)
	}
	for _, id := range ids {
		j.work(id, works[id], steps)
	}
}

func isWork(stream string) bool {
	return stream == streamLoop || stream == streamApproval || stream == streamRun
}

// isStep reports whether an event is about a step of a work instead of a caller's call.
func isStep(e Event) bool {
	switch e.Kind {
	case Wanted, Heard:
		return true
	case Executed:
		return stepName.MatchString(e.ID)
	}
	return false
}

func (w *work) note(i int, e Event) {
	switch e.Kind {
	case Answered:
		w.answered, w.at, w.code, w.waits = true, e.Node, e.Code, e.Present
	case Agreed:
		if w.agreed < 0 {
			w.agreed = i
		}
	case Decided:
		w.decided = e.Node
	case Done:
		w.done, w.state = true, e.Code
	}
}

func (j *judge) noteStep(s *workStep, i int) {
	switch e := j.history[i]; e.Kind {
	case Wanted:
		if s.wanted < 0 {
			s.wanted = i
		}
	case Executed:
		if s.executed == 0 {
			s.began = i
		}
		s.executed++
		j.at(i).tally.Steps++
	case Heard:
		better := e.Code == "" || s.code != "" && mayHaveRun(protocol.Code(e.Code))
		if !s.heard || better {
			s.code = e.Code
		}
		s.heard = true
	}
}

// step checks the executions of a step against the result that its model got. An
// interrupted model gets none.
func (j *judge) step(id string, s *workStep, works map[string]*work) {
	if s.wanted < 0 {
		j.breach(AtMostOnce, 0, "%s ran, which no model wanted", id)
		return
	}
	t := &j.at(s.wanted).tally
	if s.code == string(protocol.OutcomeUnknown) {
		t.StepsUnknown++
	}
	switch {
	case s.executed > 1:
		t.Twice += s.executed - 1
		promise := AtMostOnce
		if w := works[stepName.ReplaceAllString(id, "")]; w != nil && w.stream == streamLoop {
			promise = LoopsOnce
		}
		j.breach(promise, s.wanted, "%s ran %d times", id, s.executed)
	case s.heard && s.code == "" && s.executed == 0:
		j.breach(AtMostOnce, s.wanted, "%s succeeded and never ran", id)
	case s.heard && !mayHaveRun(protocol.Code(s.code)) && s.executed > 0:
		j.breach(AtMostOnce, s.wanted, "%s was refused with %s, and ran", id, s.code)
	}
}

// work checks that a work came to its end.
func (j *judge) work(id string, w *work, steps map[string]*workStep) {
	t := &j.at(w.asked).tally
	t.Works++
	if s := steps[stepOf(id, 1)]; w.stream == streamApproval && s != nil && s.executed > 0 && (w.agreed < 0 || s.began < w.agreed) {
		j.breach(Approved, s.began, "%s ran before somebody agreed to it", stepOf(id, 1))
	}
	if !w.answered {
		j.breach(AlwaysAnswer, w.asked, "the %s %s was never answered", w.stream, id)
		return
	}
	if w.code != "" {
		return // not begun, or unknown
	}
	if why := w.unfinished(); why != "" {
		j.breach(WorkEnds, w.asked, "the %s %s %s", w.stream, id, why)
		return
	}
	t.WorksDone++
	if w.decided != "" && w.decided != w.at {
		t.Elsewhere++
	}
	for number := range w.steps {
		step := stepOf(id, number+1)
		if s := steps[step]; s == nil || !s.heard {
			j.breach(WorkEnds, w.asked, "the %s %s ended without %s", w.stream, id, step)
		}
	}
}

// unfinished describes the missing part of a work that was begun, "" for none.
func (w *work) unfinished() string {
	end := stateSucceeded
	if w.stream == streamRun {
		end = "Completed"
	}
	switch {
	case !w.waits && w.stream == streamRun:
		return "was begun without an id"
	case !w.waits: // the answer is the end
		return ""
	case w.stream == streamApproval && w.decided == "":
		return "could not be agreed to"
	case !w.done:
		return "never ended"
	case w.state != end:
		return "ended as " + w.state
	}
	return ""
}
