package offer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/schema"
)

// A form declares the arguments of the prompt of a skill: a JSON Schema of an object, as
// $defs.prompt of the params of [documentCapability]. Those params are of the request that
// reads the document; the bridge fills the arguments in.
type form struct {
	source schema.Source
	fields []field // in the order of the declaration
}

// A field is an argument.
type field struct {
	mcpdoor.Argument
	values  []string // that it may have; nil for any
	initial string   // its value if it is not given
}

// maxArguments is the greatest number of arguments of one prompt.
const maxArguments = 50

// formOf reads the form in a schema of params. One that is no schema of an object is none.
func formOf(params json.RawMessage) *form {
	var outer struct {
		Defs struct {
			Prompt json.RawMessage `json:"prompt"`
		} `json:"$defs"`
	}
	if json.Unmarshal(params, &outer) != nil || len(outer.Defs.Prompt) == 0 {
		return nil
	}
	var declared struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	f := new(form)
	if json.Unmarshal(outer.Defs.Prompt, &declared) != nil || json.Unmarshal(outer.Defs.Prompt, &f.source) != nil {
		return nil
	}
	for name, text := range members(declared.Properties) {
		var property struct {
			Description string `json:"description"`
			Enum        []any  `json:"enum"`
			Default     any    `json:"default"`
		}
		if len(f.fields) == maxArguments || json.Unmarshal(text, &property) != nil {
			break
		}
		one := field{Argument: mcpdoor.Argument{Name: name, Description: property.Description, Required: slices.Contains(declared.Required, name)}}
		for _, value := range property.Enum {
			if word, ok := value.(string); ok {
				one.values = append(one.values, word)
			}
		}
		one.initial, _ = property.Default.(string)
		f.fields = append(f.fields, one)
	}
	return f
}

// members yields the members of a JSON object in their order.
func members(object json.RawMessage) func(yield func(name string, value json.RawMessage) bool) {
	return func(yield func(string, json.RawMessage) bool) {
		d := json.NewDecoder(bytes.NewReader(object))
		if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
			return
		}
		for d.More() {
			name, err := d.Token()
			var value json.RawMessage
			if err != nil || d.Decode(&value) != nil || !yield(name.(string), value) {
				return
			}
		}
	}
}

// arguments returns the arguments for clients.
func (f *form) arguments() []mcpdoor.Argument {
	if f == nil {
		return nil
	}
	list := make([]mcpdoor.Argument, len(f.fields))
	for i := range f.fields {
		list[i] = f.fields[i].Argument
	}
	return list
}

// field finds an argument by its name.
func (f *form) field(name string) *field {
	if f == nil {
		return nil
	}
	if i := slices.IndexFunc(f.fields, func(one field) bool { return one.Name == name }); i >= 0 {
		return &f.fields[i]
	}
	return nil
}

// check returns 1001 for unknown, missing or invalid arguments.
func (f *form) check(given map[string]string) error {
	for _, one := range slices.Sorted(maps.Keys(given)) {
		if f.field(one) == nil {
			return protocol.InvalidParam("arguments."+one, "is none of the prompt's")
		}
	}
	if f == nil {
		return nil
	}
	for i := range f.fields {
		if _, ok := given[f.fields[i].Name]; f.fields[i].Required && !ok {
			return protocol.InvalidParam("arguments."+f.fields[i].Name, "is missing")
		}
	}
	declared, err := schema.Compile(f.source, schema.Annotate)
	if err != nil { // the registry has checked the schema that this one is part of
		return protocol.Errorf(protocol.InvalidState, "the skill declares the arguments of its prompt in no JSON Schema: %s", err)
	}
	text, err := json.Marshal(given)
	if err != nil {
		return err
	}
	if given == nil {
		text = []byte("{}")
	}
	if v := declared.Validate(text); v != nil {
		return protocol.InvalidParam(cmp.Or(v.In("arguments"), "arguments"), v.Reason)
	}
	return nil
}

// maxFilled is the greatest length of the text of a prompt with its arguments, in
// bytes: a document with many places and a long argument could otherwise multiply.
const maxFilled = protocol.DefaultMaxBytes

// fill replaces the names of arguments in braces in a text, once: a value in the form
// of another name stays unchanged. The error is 1004 if the text becomes too long.
func (f *form) fill(text string, given map[string]string) (string, error) {
	if f == nil {
		return text, nil
	}
	var pairs []string
	for i := range f.fields {
		name := f.fields[i].Name
		value, ok := given[name]
		if !ok {
			value = f.fields[i].initial
		}
		pairs = append(pairs, "{"+name+"}", value)
	}
	filled := filling{most: max(maxFilled, len(text))}
	if _, err := strings.NewReplacer(pairs...).WriteString(&filled, text); err != nil {
		return "", err
	}
	return filled.String(), nil
}

// A filling is the text of a prompt that is made. It takes no more bytes than most.
type filling struct {
	strings.Builder
	most int
}

// Write implements [io.Writer].
func (f *filling) Write(b []byte) (int, error) {
	if f.Len()+len(b) > f.most {
		return 0, f.tooLong()
	}
	return f.Builder.Write(b)
}

// WriteString implements [io.StringWriter].
func (f *filling) WriteString(s string) (int, error) {
	if f.Len()+len(s) > f.most {
		return 0, f.tooLong()
	}
	return f.Builder.WriteString(s)
}

func (f *filling) tooLong() error {
	return protocol.Errorf(protocol.PayloadTooLarge, "the prompt with its arguments has more than %d bytes", f.most).With("limit", f.most)
}

// Complete implements [mcpdoor.Prompts]: the values that an argument may have, or ids of
// agents and skills, and names of groups of files, for arguments that are called so.
func (m prompts) Complete(ctx context.Context, env tools.Environment, name, argument, typed string, limit int) (values []string, more bool, err error) {
	skill, err := m.find(ctx, env, name)
	if err != nil {
		return nil, false, err
	}
	form := skill.form()
	if form == nil { // it takes no arguments: there is nothing to propose
		return nil, false, nil
	}
	switch one := form.field(argument); {
	case one == nil:
		return nil, false, protocol.InvalidParam("argument.name", "is none of the prompt's")
	case one.values != nil:
		values = slices.Clone(one.values)
	case argument == "agent_id":
		values, more, err = resources(m).agentIDs(ctx, env, typed)
	case argument == "skill_id":
		values, more, err = m.skillIDs(ctx, env, typed)
	case argument == "group_name":
		values = slices.Clone(m.Files.GroupsFor(env.Principal))
	}
	if protocol.CodeOf(err) == protocol.PermissionDenied { // then there are none to see
		return nil, false, nil
	}
	values = slices.DeleteFunc(values, func(v string) bool { return !strings.HasPrefix(v, typed) })
	slices.Sort(values)
	return values[:min(len(values), limit)], more || len(values) > limit, err
}

// skillIDs returns ids of skills that match a text, and whether there are more.
func (m prompts) skillIDs(ctx context.Context, env tools.Environment, text string) (ids []string, more bool, err error) {
	var list struct {
		Skills []documented `json:"skills"`
		Next   string       `json:"next_cursor"`
	}
	params := map[string]any{"limit": 1000}
	if text != "" && len(text) <= 128 {
		params["text"] = text
	}
	if err := m.ask(ctx, env, "skill.discover", params, &list); err != nil {
		return nil, false, err
	}
	for i := range list.Skills {
		ids = append(ids, list.Skills[i].ID)
	}
	return ids, list.Next != "", nil
}
