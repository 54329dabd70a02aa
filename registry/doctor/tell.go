package doctor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Bounds of telling devices of their faults.
const (
	tellEvery      = time.Minute // of one kind, for one agent
	toldRemembered = 8192
	waitingNotices = 256
)

// A notice is a fault on its way to the topic of an agent.
type notice struct {
	fault Fault
	at    time.Time
}

// A subjectOfNotice is the subject of notices, of which a device gets one a minute.
type subjectOfNotice struct {
	space protocol.SpaceID
	agent protocol.AgentID
	kind  Kind
}

// tell notifies the agents of a fault. With too many at a time some are left out:
// agent.doctor shows the fault all the same.
func (s *Service) tell(f Fault) {
	select {
	case s.news <- notice{f.bounded(), s.Now()}:
	default:
	}
}

// Run notifies devices of their faults until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case n := <-s.news:
			agents := []protocol.AgentID{n.fault.Agent}
			if n.fault.Agent == "" {
				agents = s.Agents.Behind(n.fault.Party, n.fault.Client)
			}
			for _, id := range agents {
				if s.due(subjectOfNotice{n.fault.Party.Space, id, n.fault.Kind}, n.at) {
					s.publish(id, n)
				}
			}
		}
	}
}

// due reports whether an agent was not notified of a kind of fault within the last
// minute.
func (s *Service) due(about subjectOfNotice, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.told[about]; ok && now.Sub(at) < tellEvery {
		return false
	}
	if len(s.told) >= toldRemembered && !s.sweep(now) {
		return false
	}
	s.told[about] = now
	return true
}

// sweep forgets notices older than a minute, and reports whether that made room. It looks
// once a second at most.
func (s *Service) sweep(now time.Time) bool {
	if now.Sub(s.swept) < time.Second {
		return false
	}
	s.swept = now
	for about, at := range s.told {
		if now.Sub(at) >= tellEvery {
			delete(s.told, about)
		}
	}
	return len(s.told) < toldRemembered
}

// faultEvent is the content of the event agent.fault.
type faultEvent struct {
	AgentID protocol.AgentID `json:"agent_id"`
	Space   protocol.SpaceID `json:"space_id"`
	Kind    Kind             `json:"kind"`
	What    string           `json:"what"`
	Reason  string           `json:"reason,omitempty"`
	Code    string           `json:"code,omitempty"`
	Topic   string           `json:"topic,omitempty"`
	Do      string           `json:"do"`
}

// recipients are the principals that may hear of a fault on the topic of an agent: for a
// fault of the agent itself, every subscriber that may listen there; for one of its owner, the
// owner alone.
func recipients(f *Fault, id protocol.AgentID) protocol.Recipients {
	if f.Party == id.Party(f.Party.Space) {
		return protocol.Everybody(f.Party.Space)
	}
	return protocol.Only(f.Party)
}

// publish notifies an agent of a fault on its event topic.
func (s *Service) publish(id protocol.AgentID, n notice) {
	f := &n.fault
	data, err := json.Marshal(faultEvent{id, f.Party.Space, f.Kind, inWords[f.Kind].what, f.Reason, f.Code, f.Topic, inWords[f.Kind].do})
	if err != nil { // a plain struct
		s.Log.Error("a fault is not rendered", "error", err)
		return
	}
	s.seq++ // Run alone publishes
	event := protocol.Event{
		Version: protocol.Version, ID: protocol.NewID(), Timestamp: n.at.UnixMilli(), Name: "agent.fault", Seq: s.seq, Data: data,
		Metadata: protocol.Metadata{SenderID: s.BridgeID},
	}
	m := protocol.Message{Topic: s.Topics.AgentEvent(id), Payload: event.Append(nil), ContentType: protocol.ContentJSON}
	if _, err := s.Publish(recipients(f, id), m); err != nil {
		s.Log.Warn("a fault is not published", "agent", id, "error", err)
	}
}
