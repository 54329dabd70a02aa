package entities

import (
	"bytes"
	"context"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// Origin is the id of the principal that reads states.
const Origin = "entities"

// A Router runs commands.
type Router interface {
	Handle(ctx context.Context, in commands.Inbound) *protocol.Response
}

// Options configure a [Publisher]. All are needed.
type Options struct {
	Settings
	Root     string // of the bridge's own topics
	BridgeID string
	Version  string
	Router   Router
	Publish  func(to protocol.Recipients, m protocol.Message) (receivers int, err error)
	Retained func(filter string) iter.Seq2[string, protocol.SpaceID]
	Online   func(protocol.SpaceID, protocol.SkillID) bool
	// Ask runs a capability for a principal as soon as an operator has approved it.
	Ask     func(ctx context.Context, who *protocol.Principal, skill protocol.SkillID, capability protocol.CapabilityID, params []byte) error
	Metrics *Metrics
	Log     *slog.Logger
}

// A Publisher shows skills to Home Assistant.
type Publisher struct {
	Options
	wake chan struct{}

	mu      sync.Mutex
	skills  map[protocol.SkillID]*shown
	runs    bool    // before that, devices to be withdrawn are found when it begins
	leaving []place // announced, and not withdrawn yet
	inputs  map[string]target
	births  bool // Home Assistant has come: everything is announced anew
	refused map[protocol.SkillID]bool

	reading chan protocol.SkillID // the skills whose state is to be read
	over    context.Context       // ends with Run
	end     context.CancelFunc
	asking  sync.WaitGroup // commands at work; none begins when over has ended
	working int            // of these
}

// A shown is a skill that is shown. Its fields are guarded by the mutex of the
// publisher.
type shown struct {
	*Device
	place
	announced []byte // as it was last
	status    string // online or offline, as published last
	told      []byte // the state, as published last
	queued    bool   // to be read
}

// A target is the skill and the input of it that a command is for.
type target struct {
	skill protocol.SkillID
	*input
}

// Bounds of a publisher.
const (
	readers      = 4                      // of states, at a time
	mostCommands = 64                     // of Home Assistant, at a time
	readWithin   = 10 * time.Second       // a state
	settleFor    = 200 * time.Millisecond // changes that come together are published together
	birthRest    = 5 * time.Second        // between announcements of everything
)

// New returns a publisher. Without a space it withdraws what an earlier run has
// announced, and shows nothing.
func New(o Options) *Publisher {
	over, end := context.WithCancel(context.Background())
	return &Publisher{
		over: over, end: end, Options: o, wake: make(chan struct{}, 1), skills: map[protocol.SkillID]*shown{}, inputs: map[string]target{},
		refused: map[protocol.SkillID]bool{}, reading: make(chan protocol.SkillID, max(1, o.Most)),
	}
}

func (s *Publisher) space() protocol.SpaceID { return protocol.SpaceID(s.Space) }

// Changed takes a skill as it is now, or that it is gone if it has no
// capabilities. It does not block.
func (s *Publisher) Changed(skill Skill) {
	if skill.Space != s.space() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.skills[skill.ID]
	if len(skill.Capabilities) == 0 || !s.shows(&skill) {
		s.drop(skill.ID)
		return
	}
	device := Show(&skill)
	if len(device.Entities) == 0 {
		s.drop(skill.ID)
		return
	}
	if old == nil && len(s.skills) >= s.Most {
		if !s.refused[skill.ID] {
			s.refused[skill.ID] = len(s.refused) < s.Most
			s.Log.Warn("a skill is not shown to Home Assistant, as there are connect.homeassistant.publish.most already", "skill", skill.ID, "space", s.Space)
		}
		return
	}
	now := &shown{Device: device, place: s.place(skill.ID)}
	if old != nil {
		s.forgetInputs(old)
		now.announced, now.status, now.queued = old.announced, old.status, old.queued
	}
	s.skills[skill.ID] = now
	for topic, in := range device.inputs(now.place) {
		s.inputs[topic] = target{skill.ID, in}
	}
	s.stir()
}

func (s *Publisher) drop(id protocol.SkillID) {
	delete(s.refused, id)
	if old := s.skills[id]; old != nil {
		s.forgetInputs(old)
		delete(s.skills, id)
		if s.runs {
			s.leaving = append(s.leaving, old.place)
			s.stir()
		}
	}
}

func (s *Publisher) forgetInputs(of *shown) {
	for topic := range of.inputs(of.place) {
		delete(s.inputs, topic)
	}
}

// Stir has presence looked at: an agent has come or gone. It does not block.
func (s *Publisher) Stir() { s.stir() }

func (s *Publisher) stir() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// StatusTopic is the topic on which Home Assistant announces its start.
func (s *Publisher) StatusTopic() string { return s.Prefix + "/status" }

// Says takes a message on [Publisher.StatusTopic]. It does not block.
func (s *Publisher) Says(who *protocol.Principal, payload []byte) {
	if who.Home() != s.space() || string(payload) != online {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.births = true
	s.stir()
}

// The words of availability.
const (
	online  = "online"
	offline = "offline"
)

// Run shows skills until ctx ends.
func (s *Publisher) Run(ctx context.Context) error {
	s.withdrawLeftovers()
	if s.Space == "" {
		return nil
	}
	var working sync.WaitGroup
	defer working.Wait()
	for range readers {
		working.Go(func() { s.readStates(ctx) })
	}
	refresh := time.NewTicker(s.Refresh)
	defer refresh.Stop()
	var again time.Time
	for {
		s.settle(&again)
		select {
		case <-ctx.Done():
			s.mu.Lock()
			s.end()
			s.mu.Unlock()
			s.asking.Wait()
			return nil
		case <-refresh.C:
			s.readAll()
		case <-s.wake:
			select { // for changes that come together with it
			case <-time.After(settleFor):
			case <-ctx.Done():
			}
		}
	}
}

// withdrawLeftovers removes announcements of earlier runs, in any space, that would
// not be made any more. Availability, which only the bridge retains, tells which
// announcements are its own.
func (s *Publisher) withdrawLeftovers() {
	s.mu.Lock()
	s.runs = true
	live := map[string]bool{}
	for _, d := range s.skills {
		live[d.id] = true
	}
	s.mu.Unlock()
	topics := protocol.NewTopics(s.Root)
	for at, space := range s.Retained(topics.Entity("+", "availability")) {
		id := strings.TrimSuffix(strings.TrimPrefix(at, topics.Entity("", "")[:len(s.Root)+len("/entity/")]), "/availability")
		if live[id] && space == s.space() {
			continue
		}
		for announced, in := range s.Retained("#") {
			if in == space && strings.HasSuffix(announced, "/device/"+id+"/config") {
				s.publish(space, announced, nil)
			}
		}
		s.publish(space, topics.Entity(id, "state"), nil)
		s.publish(space, at, nil)
	}
}

// settle publishes changed announcements and states. After a start of Home
// Assistant everything is announced anew, but not too often.
func (s *Publisher) settle(again *time.Time) {
	s.mu.Lock()
	leaving := s.leaving
	s.leaving = nil
	anew := s.births && time.Now().After(*again)
	if anew {
		s.births, *again = false, time.Now().Add(birthRest)
	} else if s.births {
		time.AfterFunc(time.Until(*again), s.stir)
	}
	all := make([]*shown, 0, len(s.skills))
	for _, d := range s.skills {
		all = append(all, d)
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b *shown) int { return strings.Compare(a.id, b.id) })
	for _, p := range leaving {
		if !slices.ContainsFunc(all, func(d *shown) bool { return d.place == p }) { // it has come back
			s.withdraw(p)
		}
	}
	for _, d := range all {
		s.tell(d, anew)
	}
	s.Metrics.shown(s.space(), len(all))
}

func (s *Publisher) withdraw(p place) {
	for _, topic := range []string{p.config(), p.state(), p.availability()} {
		s.publish(s.space(), topic, nil)
	}
}

// tell publishes the announcement of a skill and its availability if they have changed.
func (s *Publisher) tell(d *shown, anew bool) {
	announcement, status := d.announcement(d.place, s.Version), offline
	if s.Online(s.space(), d.Skill) {
		status = online
	}
	s.mu.Lock()
	announce := anew || !bytes.Equal(announcement, d.announced)
	came := status == online && d.status != online
	changed := anew || status != d.status
	d.announced, d.status = announcement, status
	s.mu.Unlock()
	if announce {
		s.publish(s.space(), d.config(), announcement)
	}
	if changed {
		s.publish(s.space(), d.availability(), []byte(status))
	}
	if came || announce {
		s.read(d.Skill)
	}
}

// publish has a message retained, or removed without a payload.
func (s *Publisher) publish(space protocol.SpaceID, topic string, payload []byte) {
	m := protocol.Message{Topic: topic, Payload: payload, QoS: 1, Retain: true}
	if _, err := s.Publish(protocol.Everybody(space), m); err != nil {
		s.Log.Warn("Home Assistant is not told of a skill", "topic", topic, "space", space, "error", err)
	}
}
