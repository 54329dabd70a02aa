package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A stage has the bridge and the device of the clause that runs.
type stage struct {
	options Options
	bridge  *bridge
	device  *device
	state   string // folder of the device's memory

	place        int                                  // in the record, where the clause began
	capabilities map[protocol.CapabilityID]capability // what the device registered

	stillborn int // devices in a row that did not come to serve
}

// hopeless is the number of devices in a row that may fail to serve before the rest is
// skipped: each takes all the patience there is.
const hopeless = 3

// A capability is what the device says about one of its own.
type capability struct {
	ID     protocol.CapabilityID `json:"capability_id"`
	Params json.RawMessage       `json:"params_schema"`
	Effect string                `json:"effect"`
}

// UnmarshalJSON takes the short form too, a text with the id.
func (c *capability) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &c.ID) == nil {
		return nil
	}
	type long capability
	return json.Unmarshal(data, (*long)(c))
}

// required are the capabilities that every device under test has.
var required = []protocol.CapabilityID{"echo", "slow", "progress", "count", "fail"}

// hold runs one clause. A device that failed is replaced for the next one.
func (s *stage) hold(ctx context.Context, c clause) error {
	own := c.fresh || c.begins
	if s.device == nil || own {
		if s.stillborn >= hopeless {
			return skip("%d devices in a row did not come to serve", hopeless)
		}
		if err := s.open(ctx, c); err != nil {
			s.stillborn++
			s.close()
			return err
		}
	}
	s.place = s.bridge.record.here()
	err := s.run(ctx, c)
	var skipped *errSkip
	if err != nil && !errors.As(err, &skipped) || own {
		s.close()
	}
	return err
}

func (s *stage) run(ctx context.Context, c clause) error {
	if c.needs != "" && !s.has(protocol.CapabilityID(c.needs)) {
		return skip("the device has no capability %s", c.needs)
	}
	err := c.run(ctx, s)
	var skipped *errSkip
	if errors.As(err, &skipped) {
		return err
	}
	if err != nil && s.device != nil {
		err = errors.Join(err, s.device.alive())
	}
	return errors.Join(err, s.violations())
}

// violations are the things that the device may not do and did.
func (s *stage) violations() error {
	seen, _ := s.bridge.record.since(s.place)
	for i := range seen {
		if seen[i].kind == violation {
			return errors.New(seen[i].text)
		}
	}
	return nil
}

// open starts a bridge and a device, and waits until it serves, unless the
// clause is about how it begins.
func (s *stage) open(ctx context.Context, c clause) error {
	s.close()
	var err error
	if s.state, err = os.MkdirTemp("", "conformance-"); err != nil {
		return &startError{err}
	}
	if s.bridge, err = newBridge(protocol.AgentID("device-"+protocol.NewID()[:8]), s.options.CheckParams); err != nil {
		return &startError{err}
	}
	if c.begins {
		return nil
	}
	if err := s.start(); err != nil {
		return err
	}
	if err := s.serving(ctx, 0); err != nil {
		return errors.Join(err, s.device.alive(), s.violations())
	}
	s.stillborn = 0
	return nil
}

// start starts the program, with what it has to know in its environment.
func (s *stage) start(env ...string) (err error) {
	s.device, err = startDevice(s.options, append([]string{
		"AIBRIDGE_URL=mqtt://" + s.bridge.proxy.address(),
		"AIBRIDGE_API_KEY=" + s.bridge.secret,
		"AIBRIDGE_AGENT_ID=" + string(s.bridge.agent),
		"AIBRIDGE_STATE=" + s.state,
	}, env...)...)
	return err
}

func (s *stage) close() {
	if s.device != nil {
		s.device.kill()
		s.device = nil
	}
	if s.bridge != nil {
		s.bridge.close()
		s.bridge = nil
	}
	if s.state != "" {
		_ = os.RemoveAll(s.state)
		s.state = ""
	}
	s.capabilities = nil
}

func (s *stage) has(id protocol.CapabilityID) bool {
	_, ok := s.capabilities[id]
	return ok
}

// serving waits until the device listens and has registered itself and the
// skill after a place in the record.
func (s *stage) serving(ctx context.Context, place int) error {
	if _, _, err := s.await(ctx, place, "subscribe to "+s.bridge.topics.AgentRequest(s.bridge.agent), isKind(listening)); err != nil {
		return err
	}
	after, found, err := s.await(ctx, place, "register itself with agent.register", answeredCommand("agent.register"))
	if err != nil {
		return err
	}
	if s.learn(found.request.Params) {
		return nil
	}
	for !s.learned() {
		after, found, err = s.await(ctx, after, "register the skill "+Skill+" with skill.register, or in agent.register", answeredCommand("skill.register"))
		if err != nil {
			return err
		}
		if s.learn(found.request.Params) {
			return nil
		}
	}
	return nil
}

func (s *stage) learned() bool { return len(s.capabilities) > 0 }

// learn takes the capabilities out of a registration that has those of the skill.
func (s *stage) learn(params []byte) bool {
	type skill struct {
		ID           protocol.SkillID `json:"skill_id"`
		Capabilities []capability     `json:"capabilities"`
	}
	var p struct {
		Skill  skill   `json:"skill"`
		Skills []skill `json:"skills"`
	}
	if json.Unmarshal(params, &p) != nil {
		return false
	}
	for _, sk := range append(p.Skills, p.Skill) {
		if sk.ID == Skill && len(sk.Capabilities) > 0 {
			s.capabilities = make(map[protocol.CapabilityID]capability)
			for _, c := range sk.Capabilities {
				s.capabilities[c.ID] = c
			}
			return true
		}
	}
	return false
}

// names are the capabilities that the device registered.
func (s *stage) names() string {
	var names []string
	for _, id := range slices.Sorted(maps.Keys(s.capabilities)) {
		names = append(names, string(id))
	}
	return strings.Join(names, ", ")
}

func (s *stage) await(ctx context.Context, place int, what string, match func(*sighting) bool) (int, *sighting, error) {
	return s.bridge.record.await(ctx, s.options.Patience, place, what, match)
}

func isKind(k kind) func(*sighting) bool { return func(s *sighting) bool { return s.kind == k } }

func isCommand(name string) func(*sighting) bool {
	return func(s *sighting) bool { return s.kind == command && s.request.Command == name }
}

func answeredCommand(name string) func(*sighting) bool {
	return func(s *sighting) bool { return s.answered && isCommand(name)(s) }
}

// isResponse matches a response to a request.
func isResponse(id string) func(*sighting) bool {
	return func(s *sighting) bool {
		return s.kind == answer && s.envelope.Response != nil && s.envelope.Response.ID == id
	}
}

// isEvent matches an event about a request, of any name for "".
func isEvent(id, name string) func(*sighting) bool {
	return func(s *sighting) bool {
		return s.kind == answer && s.envelope.Event != nil && s.envelope.Event.ID == id && (name == "" || s.envelope.Event.Name == name)
	}
}

// deliver publishes on the device's request topic, as soon as it listens and the
// connections that were cut are gone.
func (s *stage) deliver(ctx context.Context, payload []byte, correlation string) error {
	m := protocol.Message{
		Topic: s.bridge.topics.AgentRequest(s.bridge.agent), Payload: payload, QoS: 1, ContentType: protocol.ContentJSON,
		UserProperties: []protocol.UserProperty{{Key: "version", Value: protocol.Version}, {Key: "caller", Value: "caller-1"}},
	}
	if correlation != "" {
		m.CorrelationData = []byte(correlation)
	}
	for deadline := time.Now().Add(s.options.Patience); ; time.Sleep(5 * time.Millisecond) {
		switch {
		case !s.bridge.severed() && s.bridge.publish(m):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(deadline):
			return errors.Join(fmt.Errorf("it does not listen to its requests (%s waited)", s.options.Patience), s.device.alive())
		}
	}
}
