package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/selector"
)

// An AgentType is the purpose of an agent.
type AgentType string

// The types of agents.
const (
	MCPAgent   AgentType = "mcp_agent"   // brings requests together and talks to models
	RouteAgent AgentType = "route_agent" // hands commands out to others and gathers their results
	EndAgent   AgentType = "end_agent"   // does the work
)

// An Agent is the registration of a client that serves skills.
type Agent struct {
	ID    protocol.AgentID
	Type  AgentType // EndAgent by default
	Name  string    // for people
	Space protocol.SpaceID
	Tags  selector.Tags // that selectors choose it by; nil keeps those it has
}

// A Skill is a registration, served by the handlers of its capabilities.
type Skill struct {
	ID           protocol.SkillID
	Name         string // the id by default
	Description  string
	Version      string   // three-part; the bridge takes 1.0.0 for none
	Type         string   // system or custom; the bridge takes custom for none
	Endpoints    []string // URLs, if it is reached in other ways too
	Capabilities []Capability
	Sealing      *Sealing // keys to open sealed params with, if any are taken
	Join         string   // join token, if the skill has another owner

	StateSchema json.RawMessage // JSON Schema of its desired and its reported state; members that are readOnly are the agent's alone
	Desired     DesiredHandler  // called with the delta of the desired state; nil if the skill takes none
}

// The values of Capability.Effect.
const (
	EffectRead = "read"
	EffectAct  = "act"
)

// FormatAssert as Capability.Format has values refused that do not have the
// formats that the schemas name, such as date-time. Otherwise a format is only
// said.
const FormatAssert = "assert"

// A Capability is one thing a skill can do.
type Capability struct {
	ID           protocol.CapabilityID
	Name         string
	Description  string
	ParamsSchema json.RawMessage // JSON Schema that the bridge checks params against
	ResultSchema json.RawMessage // JSON Schema that the bridge checks results against
	Format       string          // FormatAssert if values must have the formats that the schemas name
	Effect       string          // EffectRead if it changes nothing; EffectAct, or nothing, if it may
	Idempotent   bool            // running it twice is as good as once
	Risk         string          // low, medium or high, for policies
	EffectKey    string          // which calls are the same deed: door:{door}:unlock
	EffectWindow time.Duration   // how long after it a call is the same deed; a minute if zero
	Reconcile    *Reconcile      // how to find out whether a call of unknown outcome was done
	Sealed       string          // SealedOptional or SealedRequired, if it takes sealed params
	Handler      Handler
}

// A Reconcile names the capability of the same skill that is asked whether a call
// of unknown outcome was done.
type Reconcile struct {
	Capability protocol.CapabilityID `json:"capability_id"`           // its effect is EffectRead
	Params     map[string]any        `json:"params,omitempty"`        // strings, numbers and booleans; "{door}" stands for that param of the call
	Done       map[string]any        `json:"done_when"`               // the members of its result then
	NotDone    map[string]any        `json:"not_done_when,omitempty"` // the members of its result if it was not done
}

// A Handler runs one invocation of a capability. Its context ends at the
// invocation's deadline and when the bridge cancels it. The result is
// marshalled with encoding/json. A [*protocol.Error] reaches the caller as it
// is, any other error as 5000 without its text.
type Handler func(ctx context.Context, in *Invocation) (any, error)

// Handle makes a [Handler] of a function that takes the params as P and
// returns the result as R. Params that do not fit P are answered with 1001.
func Handle[P, R any](run func(ctx context.Context, in *Invocation, params P) (R, error)) Handler {
	return func(ctx context.Context, in *Invocation) (any, error) {
		var params P
		if err := json.Unmarshal(in.Params, &params); err != nil {
			return nil, misfit(err)
		}
		return run(ctx, in, params)
	}
}

// misfit is the error for params that a handler's type cannot take.
func misfit(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return protocol.InvalidParam("params", err.Error())
	}
	path := "params"
	if wrong.Field != "" {
		path += "." + wrong.Field
	}
	return protocol.InvalidParam(path, fmt.Sprintf("must be %s, is %s", jsonType(wrong.Type), wrong.Value))
}

// jsonType names what a Go type is in JSON.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "a boolean"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

// Rejected is returned by a handler that refuses a task before it has begun
// with it; the bridge may then ask another agent.
func Rejected(reason string) error { return &rejection{reason} }

type rejection struct{ reason string }

func (r *rejection) Error() string { return "rejected: " + r.reason }

func (s *Skill) check() error {
	if reason := s.ID.Rule().Check(string(s.ID)); reason != "" {
		return protocol.InvalidParam("skill.skill_id", reason)
	}
	if len(s.Capabilities) == 0 {
		return protocol.InvalidParam("skill.capabilities", "a skill has at least one")
	}
	seen := make(map[protocol.CapabilityID]bool)
	for i, c := range s.Capabilities {
		path := fmt.Sprintf("skill.capabilities[%d]", i)
		if reason := c.ID.Rule().Check(string(c.ID)); reason != "" {
			return protocol.InvalidParam(path+".capability_id", reason)
		}
		if seen[c.ID] {
			return protocol.InvalidParam(path+".capability_id", fmt.Sprintf("%q is there twice", c.ID))
		}
		if c.Handler == nil {
			return protocol.InvalidParam(path, fmt.Sprintf("%q has no handler", c.ID))
		}
		seen[c.ID] = true
	}
	return s.prepareSealing()
}

// skillParams is a skill as skill.register takes it.
type skillParams struct {
	ID           protocol.SkillID   `json:"skill_id"`
	Name         string             `json:"name"`
	Description  string             `json:"description,omitempty"`
	Version      string             `json:"version,omitempty"`
	Type         string             `json:"type,omitempty"`
	Endpoints    []string           `json:"endpoints,omitempty"`
	Capabilities []capabilityParams `json:"capabilities"`
	StateSchema  json.RawMessage    `json:"state_schema,omitempty"`
	Keys         []encryptionKey    `json:"encryption_keys,omitempty"`
}

type capabilityParams struct {
	ID           protocol.CapabilityID `json:"capability_id"`
	Name         string                `json:"name,omitempty"`
	Description  string                `json:"description,omitempty"`
	ParamsSchema json.RawMessage       `json:"params_schema,omitempty"`
	ResultSchema json.RawMessage       `json:"result_schema,omitempty"`
	Format       string                `json:"format,omitempty"`
	Effect       string                `json:"effect,omitempty"`
	Idempotent   bool                  `json:"idempotent,omitempty"`
	Risk         string                `json:"risk,omitempty"`
	EffectKey    string                `json:"effect_key,omitempty"`
	EffectWindow int64                 `json:"effect_window_ms,omitempty"`
	Reconcile    *Reconcile            `json:"reconcile,omitempty"`
	Sealed       string                `json:"sealed,omitempty"`
}

func (s *Skill) params() (skillParams, error) {
	p := skillParams{
		ID: s.ID, Name: s.Name, Description: s.Description,
		Version: s.Version, Type: s.Type, Endpoints: s.Endpoints, StateSchema: s.StateSchema,
	}
	if p.Name == "" {
		p.Name = string(s.ID)
	}
	for _, c := range s.Capabilities {
		p.Capabilities = append(p.Capabilities, capabilityParams{
			ID: c.ID, Name: c.Name, Description: c.Description,
			ParamsSchema: c.ParamsSchema, ResultSchema: c.ResultSchema,
			Format: c.Format, Effect: c.Effect, Idempotent: c.Idempotent, Risk: c.Risk, Sealed: c.Sealed,
			EffectKey: c.EffectKey, EffectWindow: c.EffectWindow.Milliseconds(), Reconcile: c.Reconcile,
		})
	}
	var err error
	p.Keys, err = s.published()
	return p, err
}
