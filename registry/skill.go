package registry

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	names "github.com/aibridge/aibridge/commands/schema"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/effects"
	"github.com/aibridge/aibridge/registry/schema"
)

// A SkillType is the origin of a skill.
type SkillType string

// The types of skills.
const (
	SystemSkill SkillType = "system" // part of the installation
	CustomSkill SkillType = "custom"
)

// RouteCapability is the capability by which route agents are discovered.
const RouteCapability protocol.CapabilityID = "route"

// A Skill is the declaration of a skill by its agents (docs/commands.md#skillregister).
type Skill struct {
	ID           protocol.SkillID `json:"skill_id" doc:"unique in its space"`
	Name         string           `json:"name" len:"1-128" text:"line" doc:"for people"`
	Description  string           `json:"description,omitempty" len:"1-512" text:"lines" doc:"purpose"`
	Version      string           `json:"version,omitempty" len:"5-64" pattern:"^[0-9]+\\.[0-9]+\\.[0-9]+([-+][0-9A-Za-z.+-]+)?$" default:"1.0.0" doc:"three-part version"`
	Type         SkillType        `json:"type,omitempty" enum:"system,custom" default:"custom" doc:"true if it is part of the installation"`
	Endpoints    []string         `json:"endpoints,omitempty" len:"1-10" each:"1-256" doc:"URLs it is reached at; an http(s) one is called when no agent serves the skill over MQTT"`
	Capabilities []Capability     `json:"capabilities" len:"1-100" doc:"abilities"`
	StateSchema  schema.Source    `json:"state_schema,omitzero" doc:"JSON Schema of its desired and its reported state; members that are readOnly are set by the agent alone. Absent: any object"`

	EncryptionKeys []EncryptionKey `json:"encryption_keys,omitempty" len:"1-2" doc:"keys that params may be sealed to, the one to use first; two while one replaces the other"`
}

// An Effect is the kind of effect that a capability has on the world, as its skill
// declares.
type Effect string

// The effects of capabilities. The default is to act.
const (
	Reads Effect = "read" // it changes nothing
	Acts  Effect = "act"
)

// Formatting is the meaning of the keyword format in the schemas of a capability.
type Formatting string

// AssertFormats has values refused that do not have the format.
const AssertFormats Formatting = "assert"

// formats is the work of the keyword.
func (f Formatting) formats() schema.Formats { return f == AssertFormats }

// A Capability is one thing a skill can do. On the wire it may be its id
// alone.
type Capability struct {
	ID           protocol.CapabilityID `json:"capability_id" short:"true" doc:"unique in the skill"`
	Name         string                `json:"name,omitempty" len:"1-128" text:"line" doc:"for people"`
	Description  string                `json:"description,omitempty" len:"1-512" text:"lines" doc:"purpose, for people and models"`
	ParamsSchema schema.Source         `json:"params_schema,omitzero" doc:"JSON Schema of its params"`
	ResultSchema schema.Source         `json:"result_schema,omitzero" doc:"JSON Schema of its result"`
	Format       Formatting            `json:"format,omitempty" enum:"annotate,assert" doc:"assert if values must have the formats that its schemas name, such as date-time; else a format is only said"`
	Effect       Effect                `json:"effect,omitempty" enum:"read,act" doc:"read if running it changes nothing, so that models may run it beside other calls and a lost one may be repeated; act if left out. Who has to agree is said by risk alone"`
	Idempotent   bool                  `json:"idempotent,omitempty" doc:"running it twice is as good as once, so a lost call may be repeated; so it is for what only reads"`
	Risk         string                `json:"risk,omitempty" len:"1-32" text:"line" doc:"danger: low, medium, high; with high or ask a model needs an approval, with deny it may not at all"`
	EffectKey    string                `json:"effect_key,omitempty" len:"1-256" text:"line" doc:"which calls are the same deed: a text with params in braces, door:{door}:unlock. While one is under way, and within the window after it, another call is not made but waits for its answer"`
	EffectWindow int64                 `json:"effect_window_ms,omitempty" range:"1000-86400000" doc:"time after it in which a call is the same deed, milliseconds; 60000 if left out"`
	Reconcile    effects.Reconcile     `json:"reconcile,omitzero" doc:"the read that tells whether a call of unknown outcome was done; needs effect_key"`
	Sealed       Sealing               `json:"sealed,omitempty" enum:"optional,required" doc:"rule whether params may or must be sealed from client to client; the bridge then cannot check them"`
}

// Validate checks the rules that the tags of the fields cannot express.
func (s *Skill) Validate() error {
	if err := checkEndpoints("endpoints", s.Endpoints); err != nil {
		return err
	}
	seen := make(map[protocol.CapabilityID]bool, len(s.Capabilities))
	for i := range s.Capabilities {
		c := &s.Capabilities[i]
		if seen[c.ID] {
			return protocol.InvalidParam(fmt.Sprintf("capabilities[%d].capability_id", i), fmt.Sprintf("%q is there twice", c.ID))
		}
		seen[c.ID] = true
		if c.Sealed != "" && len(s.EncryptionKeys) == 0 {
			return protocol.InvalidParam(fmt.Sprintf("capabilities[%d].sealed", i), "needs encryption_keys that params can be sealed to")
		}
	}
	if err := s.checkEffects(); err != nil {
		return err
	}
	return checkKeys(s.EncryptionKeys)
}

// repeatable reports whether running it twice is as good as once.
func (c *Capability) repeatable() bool { return c.Idempotent || c.Effect == Reads }

// capability finds one of the skill's capabilities.
func (s *Skill) capability(id protocol.CapabilityID) (*Capability, bool) {
	for i := range s.Capabilities {
		if s.Capabilities[i].ID == id {
			return &s.Capabilities[i], true
		}
	}
	return nil, false
}

// noCapability is the error for a capability that the skill does not have. It names the
// one that was probably meant: a caller that may call the skill may know.
func (s *Skill) noCapability(id protocol.CapabilityID) *protocol.Error {
	err := protocol.Errorf(protocol.NotFound, "skill %q has no capability %q", s.ID, id).
		With("skill_id", string(s.ID)).With("capability_id", string(id))
	if meant, ok := names.Nearest(string(id), func(yield func(string) bool) {
		for i := range s.Capabilities {
			if !yield(string(s.Capabilities[i].ID)) {
				return
			}
		}
	}); ok {
		return err.With("did_you_mean", meant)
	}
	return err
}

// overHTTP lists the endpoints that can be called with a POST.
func (s *Skill) overHTTP() []string { return overHTTP(s.Endpoints) }

// sameContract reports whether two descriptions promise callers the same.
func (s *Skill) sameContract(o *Skill) bool {
	return s.Version == o.Version && s.StateSchema == o.StateSchema && slices.Equal(s.Capabilities, o.Capabilities) && sameKeys(s.EncryptionKeys, o.EncryptionKeys)
}

// A SkillRecord is a registered skill, as stored. It is immutable.
type SkillRecord struct {
	Skill
	Space     protocol.SpaceID `json:"space_id"`
	Owner     protocol.Party   `json:"owner"` // the party that described it
	Providers []Provider       `json:"providers,omitempty"`

	RegisteredAt int64 `json:"registered_at"` // Unix milliseconds
	UpdatedAt    int64 `json:"updated_at"`    // Unix milliseconds
}

// KeptFor is the party whose budget of records the skill uses.
func (r *SkillRecord) KeptFor() protocol.Party { return r.Owner }

// A Provider is an agent that serves a skill.
type Provider struct {
	AgentID protocol.AgentID `json:"agent_id"`
	Owner   protocol.Party   `json:"owner"` // the party that made it a provider
}

// maxProviders bounds the agents of one skill.
const maxProviders = 256

func (r *SkillRecord) provider(id protocol.AgentID) int {
	return slices.IndexFunc(r.Providers, func(p Provider) bool { return p.AgentID == id })
}

// A CapabilityView is a capability as callers see it: the id alone if there is
// nothing else, as in the source's model.
type CapabilityView Capability

// MarshalJSON implements [json.Marshaler].
func (v CapabilityView) MarshalJSON() ([]byte, error) {
	if v == (CapabilityView{ID: v.ID}) {
		return json.Marshal(v.ID)
	}
	return json.Marshal(Capability(v))
}

// JSONSchema describes both forms.
func (CapabilityView) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"anyOf":[{"type":"string"},{"type":"object","required":["capability_id"],"properties":{` +
		`"capability_id":{"type":"string"},"name":{"type":"string"},"description":{"type":"string"},` +
		`"params_schema":{"type":["object","boolean"]},"result_schema":{"type":["object","boolean"]},` +
		`"format":{"type":"string"},"effect":{"type":"string"},"idempotent":{"type":"boolean"},"risk":{"type":"string"},` +
		`"effect_key":{"type":"string"},"effect_window_ms":{"type":"integer"},"reconcile":{"type":"object"},"sealed":{"type":"string"}}}]}`)
}

// checkEndpoints checks that every endpoint is an absolute URL without
// secrets in it: endpoints are public.
func checkEndpoints(path string, endpoints []string) error {
	for i, e := range endpoints {
		at := fmt.Sprintf("%s[%d]", path, i)
		u, err := url.Parse(e)
		switch {
		case err != nil:
			return protocol.InvalidParam(at, "is not a URL")
		case u.Scheme == "" || u.Host == "":
			return protocol.InvalidParam(at, "is not an absolute URL with a host")
		case u.User != nil:
			return protocol.InvalidParam(at, "may not hold a user name or password")
		}
	}
	return nil
}
