package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"
)

// shapes begin the schema with the circumstances of a request. Names that may be missing end in
// "?"; policies test them with "has" first.
const shapes = `// The circumstances of a request.
type Circumstances = {
  time: datetime,
  door: String,              // mqtt, http, ws
  method: String,            // anonymous, apikey, jwt, certificate
  sender_id: String,
  address?: ipaddr,          // unknown for what the bridge does on its own
  certificate?: String       // serial of the certificate whose key the principal holds
};

entity Role;

// Numbers among the arguments of a call, by JSON Pointer.
entity Numbers tags decimal;
`

// thing lists the attributes of the resources of actions, such as agents, skills
// and operators. The resource of a list is the space.
const thing = `{
  id: String,                // as in commands
  space: String,
  owner?: String,            // id of the principal that registered or declared it, unless that is a namesake of who asks
  cap?: String,              // the Cap that a group, scene, channel or file belongs to
  group?: String,
  scene?: String,            // scene type
  skill?: String,            // the skill that a Cap belongs to
  agents?: Set<String>,      // that provide a skill
  kind?: String,             // of a topic: request, response, card, channel, scene, task, events, file, outside, dollar, other
  own?: Bool                 // of a topic: it is the principal's (docs/protocol.md#who-may-do-what): its client's, its agent's, or by membership
}`

// call are the attributes of an approval besides: the call of a tool that it is
// about.
const call = `,
  tool?: String,             // what a model wants to run
  requester?: String,        // id of the principal that it is for
  requester_kind?: String,   // operator, agent, skill, bridge
  risk?: String,             // of the capability, in its own words
  numbers?: Numbers          // among the arguments of the call
} tags String`

// schemaText writes the schema in Cedar's own language.
func (v *vocabulary) schemaText() string {
	var b strings.Builder
	b.WriteString(shapes)
	resources := v.resources()
	types := slices.Clone(resources)
	for _, p := range principals {
		if !slices.Contains(types, p) {
			types = append(types, p)
		}
	}
	slices.Sort(types)
	for _, t := range types {
		switch {
		case t == typeSpace:
			fmt.Fprintf(&b, "entity Space = %s;\n", thing)
		case t == typeApproval:
			fmt.Fprintf(&b, "entity %s in [Space] = %s;\n", t, strings.TrimSuffix(thing, "\n}")+call)
		case slices.Contains(principals, t):
			fmt.Fprintf(&b, "entity %s in [Role, Space] = %s tags String;\n", t, thing)
		default:
			fmt.Fprintf(&b, "entity %s in [Space] = %s;\n", t, thing)
		}
	}
	for _, g := range v.groups {
		fmt.Fprintf(&b, "action %q;\n", g)
	}
	for _, action := range v.names() {
		groups, ok := v.actions[action]
		if !ok {
			continue
		}
		quoted := make([]string, len(groups))
		for i, g := range groups {
			quoted[i] = fmt.Sprintf("%q", g)
		}
		in := ""
		if len(quoted) > 0 {
			in = " in [" + strings.Join(quoted, ", ") + "]"
		}
		fmt.Fprintf(&b, "action %q%s appliesTo {principal: [%s], resource: [%s], context: Circumstances};\n",
			action, in, join(principals), join(v.targets(action)))
	}
	return b.String()
}

// targets are the types that an action can be about. Few besides the family's
// own: the validator looks at every combination.
func (v *vocabulary) targets(action string) []cedar.EntityType {
	switch action {
	case ActFor:
		return []cedar.EntityType{typeSender}
	case Publish, Subscribe:
		return []cedar.EntityType{typeTopic}
	}
	types := []cedar.EntityType{typeOf(familyOf(action)), typeSpace, typeBridge}
	switch familyOf(action) {
	case "command":
		types = append(types, typeAgent)
	case "cert":
		types = append(types, typeSkill)
	case "scene":
		types = append(types, "Cap", typeSkill)
	case "vfs":
		types = append(types, "Cap", "Group")
	case "cap":
		types = append(types, "Vfs")
	}
	slices.Sort(types)
	return slices.Compact(types)
}

func join(types []cedar.EntityType) string {
	texts := make([]string, len(types))
	for i, t := range types {
		texts[i] = string(t)
	}
	return strings.Join(texts, ", ")
}

// validator makes the validator of policies against the schema.
func (v *vocabulary) validator() (*validate.Validator, error) {
	var s schema.Schema
	s.SetFilename("schema")
	if err := s.UnmarshalCedar([]byte(v.schemaText())); err != nil {
		return nil, fmt.Errorf("schema of policies: %w", err)
	}
	resolved, err := s.Resolve()
	if err != nil {
		return nil, fmt.Errorf("schema of policies: %w", err)
	}
	return validate.New(resolved), nil
}
