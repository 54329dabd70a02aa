// Package device makes agents of things that speak plain MQTT and know nothing
// of the bridge: a [Device] says what to publish for a capability and where the
// answer and the state are to be read, a [Fleet] registers such devices, tells
// their presence and answers for their skills.
//
// A device is an agent like any other to its callers: its requests come by the
// way that agents on a WebSocket have, a [commands.Line], which here ends in this
// process. So schemas, deadlines, claims, policy, approvals and the audit trail
// are those of every other skill.
//
// One process holds of a fleet its connection, the lines, the state
// heard last and the answers waited for; none of it is stored, and all of it
// comes back from retained messages. The registrations are in the registry. Of
// several bridges exactly one may run the fleet of an origin and space: its
// agents are online where their lines are.
package device

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"github.com/aibridge/aibridge/connect/template"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// A Device is something on plain topics. It is immutable once it is in a fleet.
type Device struct {
	Agent    protocol.AgentID
	Name     string
	Presence Presence
	Skills   []Skill
	// Digest is the digest of the description; equal for equal devices.
	Digest string
	// By is the grant of the device's announcer, with whose rights its topics are
	// read and published to; nil for a device of the bridge's own configuration.
	By *grant.Grant
}

// A Skill is a skill that a device offers.
type Skill struct {
	ID           protocol.SkillID
	Name         string
	Description  string
	State        []Reading // the parts of the result of the capability "state"
	Capabilities []Capability
}

// StateCapability is the capability by which the state of a skill is read. Every
// skill with readings has it.
const StateCapability protocol.CapabilityID = "state"

// A Reading is a named part of a skill's state.
type Reading struct {
	Name   string
	Topic  string
	Read   Extraction
	Schema map[string]any // JSON Schema of its value
}

// A Capability is something that a device does when a message is published.
type Capability struct {
	ID          protocol.CapabilityID
	Name        string
	Description string
	Params      json.RawMessage // JSON Schema
	Reads       bool            // it changes nothing
	Idempotent  bool
	Risk        string
	Publish     []Publication
	Answer      *Answer // nil: nothing comes back
}

// A Publication is a message that a capability publishes.
type Publication struct {
	When *template.Template // publish if this is true; nil: always
	// Let are more variables, made of the params. One that cannot be made, as a
	// param is not given, is not there.
	Let     map[string]*template.Template
	Topic   Topic
	Payload Payload
	QoS     byte
	Retain  bool
}

// An Answer is the topic and format of a device's answer to a capability.
type Answer struct {
	Topics []string
	// Read makes the answer of the first message that it can be read from and
	// that Match takes. nil takes any message, and answers with the state.
	Read    *Extraction
	Match   *template.Template // over the params, value and value_json; nil takes every message
	Timeout time.Duration
	// Optional has the fleet answer confirmed: false for a device without a timely
	// answer, as the published command may have been carried out.
	Optional bool
}

// DefaultTimeout is the time that a device may take for its answer.
const DefaultTimeout = 10 * time.Second

// A Mode is the rule that makes one presence of several availability topics.
type Mode string

// The modes, by the names that Home Assistant has for them.
const (
	All    Mode = "all"    // available if all topics say so
	Any    Mode = "any"    // available if one says so
	Latest Mode = "latest" // as the newest message says
)

// A Presence is the rule for a device's presence. Without topics and Fresh it is
// online as long as the bridge is.
type Presence struct {
	Mode   Mode
	Topics []Availability
	// Fresh is the time that a message of the device, on any topic that it is read
	// from, stands for its being there; 0 asks for none.
	Fresh time.Duration
}

// An Availability is a topic on which a device, or what connects it, says
// whether it is there.
type Availability struct {
	Topic   string
	Read    Extraction
	Online  string
	Offline string
}

// An Extraction makes a value of a payload: by a template or a pattern, a table,
// a type, in this order. Without any, the value is the payload as text.
type Extraction struct {
	Template *template.Template // over value, the text, and value_json if it is JSON
	Pattern  *regexp.Regexp     // its first group, or the whole match
	Map      map[string]any     // of the text of a value to another; a missing text cannot be read
	Type     string             // of JSON Schema: boolean, integer, number or string
}

// partyOf is the party that gave a grant, "" without one.
func partyOf(g *grant.Grant) string {
	if g == nil {
		return ""
	}
	return g.Party().String()
}

// skill finds one of the device's skills.
func (d *Device) skill(id protocol.SkillID) *Skill {
	for i := range d.Skills {
		if d.Skills[i].ID == id {
			return &d.Skills[i]
		}
	}
	return nil
}

func (s *Skill) capability(id protocol.CapabilityID) *Capability {
	for i := range s.Capabilities {
		if s.Capabilities[i].ID == id {
			return &s.Capabilities[i]
		}
	}
	return nil
}

// Topics are the topics that the device is read from.
func (d *Device) Topics() []string {
	seen := map[string]bool{}
	var list []string
	add := func(topic string) {
		if !seen[topic] {
			seen[topic] = true
			list = append(list, topic)
		}
	}
	for _, a := range d.Presence.Topics {
		add(a.Topic)
	}
	for i := range d.Skills {
		for _, r := range d.Skills[i].State {
			add(r.Topic)
		}
		for _, c := range d.Skills[i].Capabilities {
			if c.Answer != nil {
				for _, topic := range c.Answer.Topics {
					add(topic)
				}
			}
		}
	}
	return list
}

// registration is the device as params of agent.register.
func (d *Device) registration() (json.RawMessage, error) {
	type capability struct {
		ID          protocol.CapabilityID `json:"capability_id"`
		Name        string                `json:"name,omitempty"`
		Description string                `json:"description,omitempty"`
		Params      json.RawMessage       `json:"params_schema,omitempty"`
		Result      any                   `json:"result_schema,omitempty"`
		Effect      string                `json:"effect"`
		Idempotent  bool                  `json:"idempotent,omitempty"`
		Risk        string                `json:"risk,omitempty"`
	}
	type skill struct {
		ID           protocol.SkillID `json:"skill_id"`
		Name         string           `json:"name"`
		Description  string           `json:"description,omitempty"`
		Capabilities []capability     `json:"capabilities"`
	}
	params := struct {
		ID     protocol.AgentID `json:"agent_id"`
		Type   string           `json:"type"`
		Name   string           `json:"name,omitempty"`
		Skills []skill          `json:"skills"`
	}{d.Agent, "end_agent", d.Name, nil}
	for i := range d.Skills {
		s := &d.Skills[i]
		made := skill{ID: s.ID, Name: s.Name, Description: s.Description}
		for _, c := range s.Capabilities {
			effect := "act"
			if c.Reads {
				effect = "read"
			}
			made.Capabilities = append(made.Capabilities, capability{c.ID, c.Name, c.Description, c.Params, nil, effect, c.Idempotent, c.Risk})
		}
		if len(s.State) > 0 {
			made.Capabilities = append(made.Capabilities, capability{
				ID: StateCapability, Description: "What it said last about itself.",
				Params: json.RawMessage(`{"type":"object","additionalProperties":false}`), Result: s.stateSchema(), Effect: "read", Idempotent: true,
			})
		}
		params.Skills = append(params.Skills, made)
	}
	return json.Marshal(params)
}

// stateSchema is the JSON Schema of the results of the capability "state".
func (s *Skill) stateSchema() map[string]any {
	properties := map[string]any{updatedAt: map[string]any{
		"type": "integer", "description": "when it said the newest part of it, Unix milliseconds",
	}}
	for _, r := range s.State {
		properties[r.Name] = r.Schema
	}
	return map[string]any{"type": "object", "properties": properties}
}

// updatedAt is the part of a state with the time of the last message.
const updatedAt = "updated_at"

// Read makes a value of a payload. A message that does not tell it is an error
// that wraps [template.ErrUndefined].
func (e *Extraction) Read(payload []byte) (any, error) {
	return e.read(payloadVars(payload), template.NewBudget(template.MaxSteps))
}

// read is [Extraction.Read] of the variables of a payload.
func (e *Extraction) read(vars template.Vars, steps *template.Budget) (any, error) {
	v := vars["value"]
	var err error
	if e.Template != nil {
		if v, err = e.Template.ValueWithin(steps, vars); err != nil {
			return nil, err
		}
	}
	if e.Pattern != nil {
		found := e.Pattern.FindStringSubmatch(template.Text(v))
		if found == nil {
			return nil, fmt.Errorf("the pattern does not match: %w", template.ErrUndefined)
		}
		v = found[min(1, len(found)-1)]
	}
	if e.Map != nil {
		known, ok := e.Map[template.Text(v)]
		if !ok {
			return nil, fmt.Errorf("%.60q is not in the map", template.Text(v))
		}
		v = known
	}
	if v == nil && e.Type != "" {
		return nil, fmt.Errorf("null: the value %w", template.ErrUndefined)
	}
	return typed(v, e.Type)
}

// payloadVars are the variables of templates about a message.
func payloadVars(payload []byte) template.Vars {
	vars := template.Vars{"value": string(payload)}
	if first := bytes.TrimSpace(payload); len(first) > 0 {
		if v, err := template.FromJSON(first); err == nil {
			vars["value_json"] = v
		}
	}
	return vars
}

// typed is a value as a type of JSON Schema.
func typed(v any, as string) (any, error) {
	if s, ok := v.(string); ok && as == "string" {
		return s, nil
	}
	if as == "string" {
		return template.ToJSON(v)
	}
	if convert := conversions[as]; convert != nil {
		return convert.Value(template.Vars{"v": v})
	}
	return v, nil
}

// conversions are the filters that make one type of another.
var conversions = map[string]*template.Template{
	"integer": template.Must("{{ v | int }}"), "number": template.Must("{{ v | float }}"), "boolean": template.Must("{{ v | bool }}"),
}
