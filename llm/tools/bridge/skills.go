package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// A Skill describes a registered skill.
type Skill struct {
	Space        protocol.SpaceID
	ID           protocol.SkillID
	Name         string
	Description  string
	RegisteredAt int64 // Unix milliseconds
	Capabilities []Capability
}

// A Capability is one thing that a skill can do.
type Capability struct {
	ID           protocol.CapabilityID
	Name         string
	Description  string
	ParamsSchema json.RawMessage // nil: any params
	ResultSchema json.RawMessage
	ReadOnly     bool // declared to change nothing
	Idempotent   bool
	Risk         string // in the skill's own words
	EffectKey    string // declared identity of its calls' effects, "" for none
	Sealed       bool   // params must be sealed from client to client, which the bridge cannot do
}

// An EffectOf returns the identity of a call's effect on the world, equal for calls
// with the same effect; "" if the capability declares none.
type EffectOf func(space protocol.SpaceID, skill protocol.SkillID, capability protocol.CapabilityID, params json.RawMessage) string

// reserved is the prefix of the capabilities that agents add to skills for skill.read.
const reserved = "skill."

// document is the capability that reads the documents of a skill.
const document protocol.CapabilityID = reserved + "document"

// maxListed is the greatest number of skills of a space with tools; the oldest ones
// count.
const maxListed = 10_000

// Skills is a source of tools: one for each capability of each skill, by the name
// skill.capability. A principal sees only the tools of skills that it may invoke.
type Skills struct {
	fill   Fill
	may    MayInvoke
	effect EffectOf

	mu       sync.RWMutex
	spaces   map[protocol.SpaceID]*spaceSkills
	revision atomic.Uint64
}

// spaceSkills holds the skills of one space.
type spaceSkills struct {
	byID    map[protocol.SkillID]*entry
	ordered []*entry // the oldest first; nil after a change
}

// An entry is a skill and its tools.
type entry struct {
	describe func() Skill
	id       protocol.SkillID
	since    int64
	made     atomic.Pointer[described] // made on demand
}

type described struct {
	skill Skill
	tools []*tools.Tool
}

var _ tools.Finder = (*Skills)(nil)

// NewSkills returns the source. [Skills.Changed] reports the skills to it.
func NewSkills(fill Fill, may MayInvoke, effect EffectOf) *Skills {
	return &Skills{fill: fill, may: may, effect: effect, spaces: make(map[protocol.SpaceID]*spaceSkills)}
}

// Changed reports a skill that is new or has changed, or is gone if describe is nil.
// Describe is called only on demand.
func (s *Skills) Changed(space protocol.SpaceID, id protocol.SkillID, since int64, describe func() Skill) {
	s.mu.Lock()
	defer s.mu.Unlock()
	on := s.spaces[space]
	if on == nil {
		on = &spaceSkills{byID: make(map[protocol.SkillID]*entry)}
		s.spaces[space] = on
	}
	old := on.byID[id]
	if describe == nil {
		if old != nil {
			delete(on.byID, id)
			on.ordered = nil
			s.revision.Add(1)
		}
		if len(on.byID) == 0 {
			delete(s.spaces, space)
		}
		return
	}
	if old != nil && old.since == since && old.isStill(describe) {
		return
	}
	on.byID[id] = &entry{describe: describe, id: id, since: since}
	on.ordered = nil
	s.revision.Add(1)
}

// isStill reports whether a skill has an equal description already.
func (e *entry) isStill(describe func() Skill) bool {
	made := e.made.Load()
	return made != nil && reflect.DeepEqual(made.skill, describe())
}

// Revision implements [tools.Source].
func (s *Skills) Revision() string { return strconv.FormatUint(s.revision.Load(), 10) }

// Tools implements [tools.Source].
func (s *Skills) Tools(ctx context.Context, env tools.Environment) ([]*tools.Tool, error) {
	var list []*tools.Tool
	for _, e := range s.entries(spaceOf(env)) {
		if s.may(ctx, env.Principal, spaceOf(env), e.id) == nil {
			list = append(list, s.made(e).tools...)
		}
	}
	return list, ctx.Err()
}

// Find implements [tools.Finder].
func (s *Skills) Find(ctx context.Context, env tools.Environment, name string) (*tools.Tool, bool) {
	space := spaceOf(env)
	var oldest *entry
	var found *tools.Tool
	for at := range len(name) {
		if name[at] != '.' {
			continue
		}
		e := s.entry(space, protocol.SkillID(name[:at]))
		if e == nil || oldest != nil && older(oldest, e) < 0 {
			continue
		}
		for _, t := range s.made(e).tools {
			if t.Name == name && s.may(ctx, env.Principal, space, e.id) == nil {
				oldest, found = e, t
			}
		}
	}
	return found, found != nil
}

// older orders skills that claim the same tool name by age: a.b with the capability c may
// be older than a with the capability b.c, or younger.
func older(a, b *entry) int { return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.id, b.id)) }

// Skill returns the description of a skill. It fails unless the environment's principal
// may invoke the skill.
func (s *Skills) Skill(ctx context.Context, env tools.Environment, id protocol.SkillID) (*Skill, error) {
	space := spaceOf(env)
	e := s.entry(space, id)
	if e == nil {
		return nil, protocol.Errorf(protocol.NotFound, "there is no skill %q", string(id)).With("skill_id", string(id))
	}
	if err := s.may(ctx, env.Principal, space, id); err != nil {
		return nil, err
	}
	return &s.made(e).skill, nil
}

// All returns the descriptions of the skills that the principal may invoke, the oldest
// first.
func (s *Skills) All(ctx context.Context, env tools.Environment) []*Skill {
	space := spaceOf(env)
	var list []*Skill
	for _, e := range s.entries(space) {
		if s.may(ctx, env.Principal, space, e.id) == nil {
			list = append(list, &s.made(e).skill)
		}
	}
	return list
}

// declaredBy is the declaration of a skill with one of its capabilities, nil without
// that capability.
func (s *Skills) declaredBy(space protocol.SpaceID, id protocol.SkillID, capability protocol.CapabilityID) []byte {
	e := s.entry(space, id)
	if e == nil {
		return nil
	}
	about := s.made(e).skill
	i := slices.IndexFunc(about.Capabilities, func(c Capability) bool { return c.ID == capability })
	if i < 0 {
		return nil
	}
	about.Capabilities, about.RegisteredAt = about.Capabilities[i:i+1], 0 // a repeated registration changes nothing
	text, err := json.Marshal(about)
	if err != nil {
		return fmt.Appendf(nil, "%+v", about)
	}
	return text
}

// riskOf is the risk that a skill declares for a capability, in its own words. A
// principal that may dispatch to a group reaches skills that it may not invoke, and their
// risk counts all the same. A skill that is not registered has none.
func (s *Skills) riskOf(space protocol.SpaceID, id protocol.SkillID, capability protocol.CapabilityID) string {
	e := s.entry(space, id)
	if e == nil {
		return ""
	}
	risk, _ := s.made(e).skill.risk(capability)
	return risk
}

// risk is the declared risk of a capability; declared reports whether the skill has the
// capability.
func (s *Skill) risk(of protocol.CapabilityID) (risk string, declared bool) {
	for i := range s.Capabilities {
		if s.Capabilities[i].ID == of {
			return s.Capabilities[i].Risk, true
		}
	}
	return "", false
}

func (s *Skills) entry(space protocol.SpaceID, id protocol.SkillID) *entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if on := s.spaces[space]; on != nil {
		return on.byID[id]
	}
	return nil
}

// entries lists the skills of a space, the oldest first: of two names that differ only
// in case the older one counts.
func (s *Skills) entries(space protocol.SpaceID) []*entry {
	s.mu.RLock()
	on := s.spaces[space]
	var ordered []*entry
	if on != nil {
		ordered = on.ordered
	}
	s.mu.RUnlock()
	if on == nil || ordered != nil {
		return ordered
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if on.ordered == nil {
		for _, e := range on.byID {
			on.ordered = append(on.ordered, e)
		}
		slices.SortFunc(on.ordered, older)
		on.ordered = on.ordered[:min(len(on.ordered), maxListed)]
	}
	return on.ordered
}

// others are the prefixes of tool names that no skill may use. They stay reserved while
// their tools are missing, such as those of an MCP server that is down, or the dispatch
// without the right to it: a policy that trusts such a name is about the other tool.
var others = []string{"mcp.", "fs.", "ui.", readName, dispatchName}

func isOthers(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(others, func(o string) bool {
		return strings.HasPrefix(name, o) && (o[len(o)-1] == '.' || name == o)
	})
}

// made returns the description of a skill with its tools, made once.
func (s *Skills) made(e *entry) *described {
	if d := e.made.Load(); d != nil {
		return d
	}
	d := &described{skill: e.describe()}
	for i := range d.skill.Capabilities {
		c := &d.skill.Capabilities[i]
		if !c.Sealed && !strings.HasPrefix(string(c.ID), reserved) && !isOthers(toolName(d.skill.ID, c.ID)) {
			d.tools = append(d.tools, s.tool(&d.skill, c))
		}
	}
	e.made.CompareAndSwap(nil, d)
	return e.made.Load()
}

// toolName is the tool name of a skill's capability.
func toolName(skill protocol.SkillID, capability protocol.CapabilityID) string {
	return string(skill) + "." + string(capability)
}

func (s *Skills) tool(skill *Skill, c *Capability) *tools.Tool {
	schema := c.ParamsSchema
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	effect := commands.Act
	if c.ReadOnly {
		effect = commands.Read
	}
	media := frameOf(c.ResultSchema, 0)
	own := invocation(skill.ID, c.ID, "")
	t := &tools.Tool{
		Declaration: tools.Declaration{
			Name:        toolName(skill.ID, c.ID),
			Title:       c.Name,
			Description: describe(skill, c),
			Schema:      schema,
			Output:      c.ResultSchema,
			Effect:      effect,
			Risk:        tools.RiskOf(c.Risk),
			RiskWords:   c.Risk,
			Idempotent:  c.Idempotent || c.ReadOnly,
			Untrusted:   true,
			Source:      "skill",
		},
		Begin: func(ctx context.Context, x *tools.Execution) (tools.Running, error) {
			invoked := own
			if space := elsewhere(x.Environment); space != "" {
				invoked = invocation(skill.ID, c.ID, space)
			}
			return s.begin(ctx, x.Environment, invoked, x.ArgumentsJSON, media)
		},
		Prompt: true, // like every command
	}
	t.Run = t.Wait
	if c.Risk != "" || c.EffectKey != "" {
		t.Resolve = func(_ context.Context, x *tools.Execution) error {
			if c.Risk != "" {
				x.Risks = []string{c.Risk} // in its own words, which operators may rate differently
			}
			if c.EffectKey != "" {
				x.Effect = s.effect(skill.Space, skill.ID, c.ID, x.ArgumentsJSON)
			}
			return nil
		}
	}
	return t
}

// describe is the description of a tool, made of all names and descriptions of its
// skill and capability: names may be in scripts that wires transliterate, and
// capabilities of one skill often differ in their names only.
func describe(skill *Skill, c *Capability) string {
	what := cmp.Or(c.Name, string(c.ID))
	if of := cmp.Or(skill.Name, string(skill.ID)); of != what {
		what = of + ": " + what
	}
	if more := cmp.Or(c.Description, skill.Description); more != "" && more != what {
		return what + " – " + more
	}
	return what
}

// invocation is the template of the calls of a capability in a space, "" for the
// caller's own.
func invocation(skill protocol.SkillID, capability protocol.CapabilityID, space protocol.SpaceID) *commands.Template {
	before := protocol.AppendString([]byte(`{"skill_id":`), string(skill))
	before = protocol.AppendString(append(before, `,"capability_id":`...), string(capability))
	var behind []byte
	if space != "" {
		behind = protocol.AppendString([]byte(`,"space_id":`), string(space))
	}
	return commands.NewTemplate("skill.invoke", string(before)+`,"params":`, string(behind)+`}`)
}

// call invokes a capability and returns its data.
func (s *Skills) call(ctx context.Context, env tools.Environment, t *commands.Template, params json.RawMessage) (json.RawMessage, error) {
	running, err := s.begin(ctx, env, t, params, nil)
	if err != nil {
		return nil, err
	}
	out, err := tools.Await(ctx, running)
	return out.Content, err
}

// begin begins to invoke a capability, whose results have a frame.
func (s *Skills) begin(ctx context.Context, env tools.Environment, t *commands.Template, params json.RawMessage, of *frame) (tools.Running, error) {
	if tools.KeyOf(ctx) != "" { // a repeat may be of a request before an update, which was written like this
		var err error
		if params, err = write(params); err != nil {
			return nil, err
		}
	}
	return &invokedSkill{s.fill(ctx, env, t, params), of}, nil
}

// An invokedSkill is a capability that was invoked.
type invokedSkill struct {
	Filled
	frame *frame
}

// Output implements [tools.Running].
func (i *invokedSkill) Output() (tools.Output, error) {
	answer, err := i.Result()
	if err != nil {
		return tools.Output{}, err
	}
	data := protocol.Member(answer, "data")
	if data == nil {
		return tools.Output{}, protocol.Errorf(protocol.Internal, "the answer of the skill cannot be read")
	}
	return i.frame.output(data), nil
}
