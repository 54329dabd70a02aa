package shadow

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// Bounds of reports that were published and wait to be written.
const (
	maxReport      = 64 << 10 // bytes of one
	maxLine        = 64       // of an agent
	maxWaiting     = 16 << 20 // bytes of all
	maxWriters     = 128      // agents whose reports are written at once
	maxWrite       = 30 * time.Second
	bytesPerReport = 256 // that a report takes besides its payload
)

// An intake holds reports that were published, in order for each agent. Those of
// an agent that come while one is written are written together.
type intake struct {
	mu      sync.Mutex
	lines   map[ref]*line
	ready   []ref // lines with reports that no writer has taken yet
	waiting int   // bytes
	writers int
	closed  bool
	wait    sync.WaitGroup
}

// A line is the reports of one agent.
type line struct{ reports []report }

type report struct {
	by      grant.Grant // of its publisher
	payload []byte
	settle  func(*protocol.Error)
}

// Take takes what an agent publishes on its reported topic: an object with a
// merge patch for each skill. It does not block; settle is called once, when the
// report is stored, or with the reason why it is not.
func (s *Service) Take(who *protocol.Principal, agent protocol.AgentID, payload []byte, settle func(*protocol.Error)) {
	r := report{grant.Of(who), bytes.Clone(payload), settle}
	of := ref{who.Home(), agent}
	x := &s.intake
	x.mu.Lock()
	l := x.lines[of]
	why := x.refuse(l, len(payload))
	if why == nil {
		x.waiting += len(payload) + bytesPerReport
		if l == nil {
			l = new(line)
			x.lines[of] = l
			x.ready = append(x.ready, of)
			if x.writers < maxWriters {
				x.writers++
				x.wait.Go(func() { s.write() })
			}
		}
		l.reports = append(l.reports, r)
	}
	x.mu.Unlock()
	if why != nil {
		s.refused(who.Party(), agent, why)
		settle(why)
	}
}

// refuse fails if a report is not taken into a line. The mutex is held.
func (x *intake) refuse(l *line, size int) *protocol.Error {
	switch {
	case x.closed:
		return protocol.Errorf(protocol.ShuttingDown, "the bridge is stopping")
	case size > maxReport:
		return protocol.Errorf(protocol.PayloadTooLarge, "a report has at most %d bytes", maxReport)
	case l != nil && len(l.reports) >= maxLine, x.waiting+size > maxWaiting:
		return protocol.Errorf(protocol.Busy, "too many reports wait to be written")
	}
	return nil
}

// close waits for the reports that were taken, and takes no more.
func (x *intake) close() {
	x.mu.Lock()
	x.closed = true
	x.mu.Unlock()
	x.wait.Wait()
}

// write writes batches of reports until none are ready.
func (s *Service) write() {
	x := &s.intake
	for {
		x.mu.Lock()
		if len(x.ready) == 0 {
			x.ready = nil
			x.writers--
			x.mu.Unlock()
			return
		}
		of := x.ready[0]
		x.ready = x.ready[1:]
		batch := x.lines[of].reports
		x.lines[of].reports = nil
		x.mu.Unlock()

		s.writeReports(of, batch)

		x.mu.Lock()
		for i := range batch {
			x.waiting -= len(batch[i].payload) + bytesPerReport
		}
		if len(x.lines[of].reports) > 0 {
			x.ready = append(x.ready, of)
		} else {
			delete(x.lines, of)
		}
		x.mu.Unlock()
	}
}

// writeReports writes reports of an agent, one write for each skill that they are
// about.
func (s *Service) writeReports(of ref, batch []report) {
	ctx, cancel := context.WithTimeout(context.Background(), maxWrite)
	defer cancel()
	outcomes := make([]error, len(batch))
	steps, order := map[protocol.SkillID]*skillSteps{}, []protocol.SkillID(nil)
	for i := range batch {
		patches, err := s.patches(ctx, of, &batch[i])
		outcomes[i] = err
		for _, p := range patches {
			if steps[p.skill] == nil {
				steps[p.skill] = new(skillSteps)
				order = append(order, p.skill)
			}
			steps[p.skill].add(step{patch: p.patch, by: batch[i].by.ID}, i)
		}
	}
	for _, skill := range order {
		steps[skill].tell(outcomes, s.reported(ctx, of, skill, steps[skill].steps))
	}
	for i := range batch {
		var why *protocol.Error
		if outcomes[i] != nil {
			why = protocol.AsError(outcomes[i])
			s.refused(batch[i].by.Party(), of.agent, why)
		}
		batch[i].settle(why)
	}
}

// refused reports to Options.Refused a report that is not taken because of its
// content or its sender.
func (s *Service) refused(who protocol.Party, agent protocol.AgentID, why *protocol.Error) {
	if why.Code < protocol.VFSUnavailable {
		s.Refused(who, agent, why)
	}
}

// skillSteps are the changes of one skill, with the report that each is from.
type skillSteps struct {
	steps []step
	from  []int
}

func (s *skillSteps) add(p step, from int) {
	s.steps, s.from = append(s.steps, p), append(s.from, from)
}

// tell puts the outcomes of the steps into those of their reports, of which the
// first error counts.
func (s *skillSteps) tell(outcomes, wrong []error) {
	for i, err := range wrong {
		if at := s.from[i]; outcomes[at] == nil {
			outcomes[at] = err
		}
	}
}

// reported applies steps to the reported state of a skill, and returns the error of each.
func (s *Service) reported(ctx context.Context, of ref, skill protocol.SkillID, steps []step) []error {
	a, known := s.Agents.Shadowed(of.space, of.agent)
	declared, provided := s.Agents.StateOf(of.space, of.agent, skill)
	err := error(nil)
	wrong := []error(nil)
	if known && provided {
		_, wrong, err = s.change(ctx, &place{a, skill, Reported}, declared, steps)
	} else {
		err = notProvided(of.agent, skill)
	}
	if err != nil {
		wrong = make([]error, len(steps))
		for i := range wrong {
			wrong[i] = err
		}
	}
	return wrong
}

// A skillPatch is the part of a report about one skill.
type skillPatch struct {
	skill protocol.SkillID
	patch object
}

// patches reads a report, and whether its publisher may make it.
func (s *Service) patches(ctx context.Context, of ref, r *report) ([]skillPatch, error) {
	who, err := s.Grants.Principal(r.by)
	if err != nil {
		return nil, err
	}
	a, known := s.Agents.Shadowed(of.space, of.agent)
	if !known {
		return nil, s.Agents.NotFound(who, "", of.agent)
	}
	if !a.BelongsTo(who) {
		return nil, notTheAgent(of.agent)
	}
	if err := protocol.CheckJSON(r.payload, protocol.Limits{MaxBytes: maxReport}); err != nil {
		return nil, err
	}
	var skills map[protocol.SkillID]json.RawMessage
	if err := json.Unmarshal(r.payload, &skills); err != nil {
		return nil, protocol.InvalidParam("skills", `must be an object with a member for each skill, such as {"heating":{"celsius":21}}`)
	}
	if len(skills) > maxSkills {
		return nil, protocol.InvalidParam("skills", fmt.Sprintf("has %d skills, at most %d are possible", len(skills), maxSkills))
	}
	var patches []skillPatch
	for skill, state := range skills {
		if err := s.Authorize(ctx, who, stateReport.Action, resource(of.space, of.agent, skill)); err != nil {
			return nil, err
		}
		patch, err := parse(state)
		if err != nil {
			return nil, inState(err)
		}
		patches = append(patches, skillPatch{skill, patch})
	}
	return patches, nil
}
