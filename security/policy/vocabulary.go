package policy

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"github.com/aibridge/aibridge/commands"
)

// Actions of the bridge that are no commands.
const (
	ActFor    = "act_for"         // to speak for another sender
	Publish   = "topic:publish"   // on a topic
	Subscribe = "topic:subscribe" // to a topic, or to all that a filter covers

	RunTool    = "tool:run"        // a model has a tool run
	Unattended = "tool:unattended" // without an approval

	DecideOwn    = "approval:decide_own"    // on one's own models' tool calls
	DecideEdited = "approval:decide_edited" // on one whose arguments one has changed

	ReadMetrics = "metrics:read"  // how the bridge is, in figures
	TakeBackup  = "bridge:backup" // of everything in every space
	ExportAudit = "audit:export"  // the trails of every space
)

// Groups of actions besides one for every family, Action::"skill".
const (
	groupRead           = "read"             // actions that change nothing
	groupWrite          = "write"            // that change the bridge's own state
	groupAct            = "act"              // that make something happen outside
	groupAdministration = "administration"   // that give rights
	groupExtension      = commands.Extension // of commands that agents have registered
	groupTopic          = "topic"
)

// families are the protocol's families of commands. The groups exist even if a
// bridge was built without the commands.
var families = []string{
	"a2a", "agent", "approval", "audit", "batch", "bridge", "cap", "cert", "command", "group", "key", "llm", "mcp", "metrics", "policy", "quota",
	"resource", "scene", "secret", "session", "skill", "state", "task", "token", "tool", groupTopic, "vfs",
}

// administered are the families that give rights.
var administered = []string{"audit", "key", "policy", "secret", "token"}

// administeredActions are those of other families that are the administrators'
// alone: they let models use the tools of a stranger, listen to a client's
// messages, or are about the machine and not about a space.
var administeredActions = []string{"mcp:server.approve", "a2a:agent.add", "a2a:agent.approve", "a2a:agent.refresh", "a2a:agent.remove", "session:trace", "bridge:config", "bridge:cluster", "bridge:drain", "bridge:remove"}

// certificates of one's own: the rest of the family is administration.
var ownCertificates = []string{"cert:get", "cert:list", "cert:renew", "cert:request"}

// A vocabulary lists the types, actions and attributes that policies can name.
type vocabulary struct {
	actions map[string][]string // groups by action
	groups  []string            // sorted
}

// newVocabulary takes the actions of commands.
func newVocabulary(set *commands.Set) *vocabulary {
	v := &vocabulary{actions: map[string][]string{
		ActFor:    nil,
		Publish:   {groupTopic},
		Subscribe: {groupTopic},

		RunTool:    {"tool"},
		Unattended: {"tool"},

		DecideOwn:    {"approval"},
		DecideEdited: {"approval"},

		ReadMetrics: {"metrics", groupRead},
		TakeBackup:  {"bridge", groupAdministration},
		ExportAudit: {"audit", groupAdministration},
	}}
	groups := map[string]bool{
		groupRead: true, groupWrite: true, groupAct: true, groupAdministration: true, groupExtension: true,
	}
	for _, f := range families {
		groups[f] = true
	}
	for c := range set.All() {
		v.actions[c.Action] = groupsOf(c.Action, c.Effect)
		groups[familyOf(c.Action)] = true
	}
	v.groups = slices.Sorted(maps.Keys(groups))
	return v
}

func familyOf(action string) string {
	family, _, _ := strings.Cut(action, ":")
	return family
}

func groupsOf(action string, effect commands.Effect) []string {
	family := familyOf(action)
	groups := []string{family, effect.String()}
	if slices.Contains(administered, family) || slices.Contains(administeredActions, action) || family == "cert" && !slices.Contains(ownCertificates, action) {
		groups = append(groups, groupAdministration)
	}
	return groups
}

// groupsOf is the groups of an action: an agent's action is in its namespace's,
// such as extension:acme, and in that of all registered ones.
func (v *vocabulary) groupsOf(action string) []string {
	if groups, ok := v.actions[action]; ok {
		return groups
	}
	if namespace, verb, ok := strings.Cut(action, "."); ok && verb != "" && isExtension(action) {
		return []string{namespace, groupExtension}
	}
	return nil
}

// has reports whether an action or a group of actions is known.
func (v *vocabulary) has(name string) bool {
	_, ok := v.actions[name]
	return ok || slices.Contains(v.groups, name)
}

// extensions are the actions and groups of commands that agents register.
var extensions = regexp.MustCompile(`^` + groupExtension + `:[a-z][a-z0-9]*(\.[a-z0-9-]+)*$`)

// isExtension reports whether an action or a group belongs to commands that an
// agent may register, now or later.
func isExtension(name string) bool { return extensions.MatchString(name) }

// former is the old name of an action that earlier versions knew by the namespace
// of an agent, acme:blink; "" for others.
func (v *vocabulary) former(name string) string {
	namespace, verb, _ := strings.Cut(name, ":")
	if now := groupExtension + ":" + namespace + "." + verb; !slices.Contains(v.groups, namespace) && verb != "" && isExtension(now) {
		return now
	}
	return ""
}

// Reserved are names that mean something to policies, so that no agent may have
// a namespace of that name: actions, groups of actions, types of entities.
func Reserved(set *commands.Set) []string {
	v := newVocabulary(set)
	names := append(slices.Clone(v.groups), ActFor)
	for _, t := range append(v.resources(), typeAction, typeRole, typeOperator, typeAgent, typeSkill) {
		names = append(names, strings.ToLower(string(t)))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// idle reports whether an action or group is of a family without commands.
func (v *vocabulary) idle(name string) bool {
	family := familyOf(name)
	if !slices.Contains(families, family) {
		return false
	}
	for action := range v.actions {
		if familyOf(action) == family {
			return false
		}
	}
	return true
}

// names lists actions and groups.
func (v *vocabulary) names() []string {
	return append(slices.Sorted(maps.Keys(v.actions)), v.groups...)
}

// Entity types that are no families.
const (
	typeAction   cedar.EntityType = "Action"
	typeRole     cedar.EntityType = "Role"
	typeSpace    cedar.EntityType = "Space"
	typeOperator cedar.EntityType = "Operator"
	typeAgent    cedar.EntityType = "Agent"
	typeSkill    cedar.EntityType = "Skill"
	typeBridge   cedar.EntityType = "Bridge"
	typeSender   cedar.EntityType = "Sender"
	typeTopic    cedar.EntityType = "Topic"
	typeApproval cedar.EntityType = "Approval"
)

// principals are the types of principals.
var principals = []cedar.EntityType{typeOperator, typeAgent, typeSkill, typeBridge}

// typeOf is the type of a family's resources: the family with a capital.
func typeOf(family string) cedar.EntityType {
	switch family {
	case "":
		return typeBridge
	case "skill": // on the message path
		return typeSkill
	case "agent":
		return typeAgent
	}
	return cedar.EntityType(strings.ToUpper(family[:1]) + family[1:])
}

// resources are the types of resources.
func (v *vocabulary) resources() []cedar.EntityType {
	types := map[cedar.EntityType]bool{typeSpace: true, typeBridge: true, typeSender: true, "Extension": true}
	for action := range v.actions {
		types[typeOf(familyOf(action))] = true
	}
	for _, f := range families {
		types[typeOf(f)] = true
	}
	delete(types, "Act_for")
	return slices.Sorted(maps.Keys(types))
}

func actionUID(name string) cedar.EntityUID {
	return cedar.EntityUID{Type: typeAction, ID: cedar.String(name)}
}
