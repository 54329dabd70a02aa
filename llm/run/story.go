package run

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/aibridge/aibridge/llm/chat"
)

// story rebuilds the turns of a diary from its entries, in their order.
type story struct {
	// done is called with each turn when the next one begins. Unless it is nil, turns
	// holds only the last turn, and nils for the others, since a diary may be larger
	// than memory.
	done   func(i int, t *toldTurn)
	turns  []*toldTurn
	system []chat.Message
	talk   []chat.Message
	tools  []chat.Tool
	open   bool       // talk ends with an answer that has unfinished calls
	rest   *restEntry // of the last entry, nil if the run is not at rest
	wait   *waitEntry // of the last turn, if one of its calls waits for an approval or uses one
	word   *wordEntry // input since the last clean rest
	heard  bool       // word has reached the model
	spent  spent      // of all turns
}

// spent holds the tokens and the cost of a run.
type spent struct {
	tokens int
	cost   float64
}

func (s *spent) add(t *turnEntry) {
	s.tokens += t.Usage.Total()
	s.cost += t.Cost
}

// A toldTurn is a turn of a diary.
type toldTurn struct {
	*turnEntry
	after    *toolsEntry // nil if the bridge stopped before, or a call waits
	waits    *waitEntry  // nil if none of its calls ever waited
	messages []chat.Message
	tools    []chat.Tool
}

func (s *story) read(e *entry) {
	s.rest = e.Rest
	if e.Rest != nil {
		s.wait = nil
	}
	switch {
	case e.Word != nil:
		s.talk, s.open = s.conversation(), false // with which the run has continued
		s.word, s.heard, s.wait = e.Word, false, nil
	case e.Wait != nil:
		s.wait = e.Wait
		if n := len(s.turns); n > 0 && s.turns[n-1].N == e.Wait.N {
			s.turns[n-1].waits = e.Wait
		}
	case e.Rest != nil && e.Rest.clean():
		s.word = nil
	case e.Turn != nil:
		t := e.Turn
		s.heard, s.wait = true, nil
		s.spent.add(t)
		if t.Request.System != nil {
			s.system = t.Request.System
		}
		if t.Request.Anew {
			s.talk = nil
		}
		s.talk = append(slices.Clip(s.talk), t.Request.Added...)
		if !t.SameTools {
			s.tools = t.Tools
		}
		if i := len(s.turns) - 1; i >= 0 && s.done != nil {
			s.done(i, s.turns[i])
			s.turns[i] = nil
		}
		s.turns = append(s.turns, &toldTurn{turnEntry: t, messages: slices.Concat(s.system, s.talk), tools: s.tools})
		if s.open = t.Assistant != nil; s.open {
			s.talk = append(slices.Clip(s.talk), *t.Assistant)
		}
	case e.Tools != nil && len(s.turns) > 0:
		last := s.turns[len(s.turns)-1]
		if last.N == e.Tools.N {
			last.after, s.open, s.wait = e.Tools, false, nil
			s.talk = append(slices.Clip(s.talk), e.Tools.Messages...)
		}
	}
}

// conversation is the conversation so far, without an answer whose calls have no
// results.
func (s *story) conversation() []chat.Message {
	if s.open {
		return s.talk[:len(s.talk)-1]
	}
	return s.talk
}

// unheard is the user's input that has not reached the model. A resumed workflow begins
// anew from its documents, so any input in the current node counts.
func (s *story) unheard(mode Mode, node string) *string {
	if s.word == nil || s.word.Input == nil {
		return nil
	}
	if mode == ModeRun && s.word.Node != node || mode != ModeRun && s.heard {
		return nil
	}
	return s.word.Input
}

// turn converts a turn for callers.
func (t *toldTurn) turn() Turn {
	turn := Turn{
		ID: turnID(t.N), At: t.At, Node: t.Node, PhaseBefore: t.Before,
		Request: TurnRequest{Messages: make([]json.RawMessage, len(t.messages)), Tools: make([]json.RawMessage, len(t.tools))},
		Response: TurnResponse{
			Assistant: json.RawMessage("null"), Segments: []chat.Segment{}, Model: t.Model, Provider: t.Provider,
			FinishReason: string(t.Finish), Usage: t.Usage, Cost: t.Cost, DurationMS: milliseconds(t.Took),
		},
	}
	for i := range t.messages {
		turn.Request.Messages[i] = asOpenAI(&t.messages[i])
	}
	for i := range t.tools {
		turn.Request.Tools[i] = toolAsOpenAI(&t.tools[i])
	}
	if t.Assistant != nil {
		turn.Response.Assistant, turn.Response.Segments = asOpenAI(t.Assistant), t.Assistant.Segments
	}
	switch {
	case t.after != nil:
		turn.ToolRuns = t.after.Runs
		turn.UIAfter = &UIAfter{Phase: t.after.After, StopReason: t.after.Stop}
	case t.waits != nil:
		turn.ToolRuns = t.waits.runs()
		turn.UIAfter = &UIAfter{Phase: WaitingApproval}
	case t.Failure != "":
		turn.UIAfter = &UIAfter{Phase: Failed, StopReason: t.Failure}
	}
	return turn
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
