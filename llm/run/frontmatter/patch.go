package frontmatter

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/llm/run/fault"
)

// An Update is the changes of a patch. Nil fields stay as they are.
type Update struct {
	StepsCompleted *Append   `json:"stepsCompleted,omitempty"` // present values are not added again
	Artifacts      *Append   `json:"artifacts,omitempty"`      // the same
	DecisionLog    *Entries  `json:"decisionLog,omitempty"`    // an entry that equals the last one is not added again
	Variables      *SetMap   `json:"variables,omitempty"`      // replaces the named variables alone
	CurrentNodeID  *SetValue `json:"currentNodeId,omitempty"`
	UpdatedAt      *SetValue `json:"updatedAt,omitempty"`
}

// Append adds texts to a list.
type Append struct {
	Append Texts `json:"append"`
}

// Texts is a list of texts; in JSON a single text is accepted as a list of one.
type Texts []string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *Texts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil && string(data) != "null" {
		*t = Texts{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// Entries adds objects to a list.
type Entries struct {
	Append []map[string]any `json:"append"`
}

// SetMap replaces some values of a mapping.
type SetMap struct {
	Set map[string]any `json:"set"`
}

// SetValue replaces a text.
type SetValue struct {
	Set string `json:"set"`
}

// ParseUpdate decodes an update that a model wrote. The error is E_SCHEMA_VALIDATION
// for unknown fields and wrong types.
func ParseUpdate(data []byte) (Update, error) {
	var u Update
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	err := dec.Decode(&u)
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind):
		return Update{}, fault.Errorf(fault.SchemaValidation, "update.%s may not be a JSON %s", kind.Field, kind.Value)
	case err != nil:
		return Update{}, fault.Errorf(fault.SchemaValidation, "update: %s; it takes stepsCompleted.append, variables.set, decisionLog.append, artifacts.append, currentNodeId.set and updatedAt.set",
			strings.TrimPrefix(err.Error(), "json: "))
	}
	return u, nil
}

// Empty reports whether an update changes nothing at all.
func (u Update) Empty() bool { return u == Update{} }

// Apply returns the text of the file after an update. The document must not be used
// afterwards. It fails with E_SCHEMA_VALIDATION if a field does not have the type that
// the update requires.
func (d *Document) Apply(u Update) ([]byte, error) {
	for _, change := range []func() error{
		func() error { return d.appendTexts("stepsCompleted", u.StepsCompleted) },
		func() error { return d.appendTexts("artifacts", u.Artifacts) },
		func() error { return d.appendEntries("decisionLog", u.DecisionLog) },
		func() error { return d.setValues("variables", u.Variables) },
		func() error { return d.setText("currentNodeId", u.CurrentNodeID) },
		func() error { return d.setText("updatedAt", u.UpdatedAt) },
	} {
		if err := change(); err != nil {
			return nil, err
		}
	}
	return d.encode()
}

func (d *Document) appendTexts(key string, a *Append) error {
	if a == nil {
		return nil
	}
	list, err := d.container(key, yaml.SequenceNode)
	if err != nil {
		return err
	}
	for _, text := range a.Append {
		if !slices.ContainsFunc(list.Content, func(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Value == text }) {
			n := &yaml.Node{}
			n.SetString(text)
			list.Content = append(list.Content, n)
		}
	}
	return nil
}

func (d *Document) appendEntries(key string, e *Entries) error {
	if e == nil {
		return nil
	}
	list, err := d.container(key, yaml.SequenceNode)
	if err != nil {
		return err
	}
	for _, entry := range e.Append {
		n, err := nodeOf(entry)
		if err != nil {
			return err
		}
		if last := len(list.Content) - 1; last >= 0 && reflect.DeepEqual(value(list.Content[last]), value(n)) {
			continue
		}
		list.Content = append(list.Content, n)
	}
	return nil
}

func (d *Document) setValues(key string, s *SetMap) error {
	if s == nil {
		return nil
	}
	mapping, err := d.container(key, yaml.MappingNode)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(s.Set))
	for name := range s.Set {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		n, err := nodeOf(s.Set[name])
		if err != nil {
			return err
		}
		setField(mapping, name, n)
	}
	return nil
}

func (d *Document) setText(key string, s *SetValue) error {
	if s == nil {
		return nil
	}
	n := &yaml.Node{}
	n.SetString(s.Set)
	if old := field(d.root, key); old != nil && old.Kind == yaml.ScalarNode && n.Style == 0 {
		n.Style = old.Style &^ (yaml.LiteralStyle | yaml.FoldedStyle | yaml.TaggedStyle)
	}
	setField(d.root, key, n)
	return nil
}

// container returns the list or mapping of a key, and creates it if absent.
func (d *Document) container(key string, kind yaml.Kind) (*yaml.Node, error) {
	n := field(d.root, key)
	if n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		n = &yaml.Node{Kind: kind}
		setField(d.root, key, n)
	}
	if n.Kind != kind {
		want := "a list"
		if kind == yaml.MappingNode {
			want = "a mapping"
		}
		return nil, fault.Errorf(fault.SchemaValidation, "%s is not %s in the file", key, want)
	}
	if len(n.Content) == 0 {
		n.Style &^= yaml.FlowStyle // an empty one is written as [] or {}, which must not fix the style
	}
	return n, nil
}

// nodeOf converts a decoded JSON value to YAML.
func nodeOf(v any) (*yaml.Node, error) {
	n := &yaml.Node{}
	if err := n.Encode(plain(v)); err != nil {
		return nil, fault.Wrap(fault.SchemaValidation, err, "a value cannot be written as YAML")
	}
	return n, nil
}

// plain replaces JSON's numbers by Go's.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, err := v.Float64()
		switch {
		case err != nil:
			return v.String() // beyond all floats
		case f == math.Trunc(f) && math.Abs(f) < 1<<53:
			return int64(f) // YAML reads 1.0, written as 1, as an integer
		}
		return f
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, item := range v {
			m[key] = plain(item)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = plain(item)
		}
		return list
	}
	return v
}

// encode writes the file, and checks that it decodes to the same values.
func (d *Document) encode() ([]byte, error) {
	raw, err := write(d.top)
	if err != nil {
		return nil, err
	}
	if d.crlf {
		raw = bytes.ReplaceAll(raw, []byte("\n"), []byte("\r\n"))
	}
	text := slices.Concat(d.head, raw, d.tail)
	again, err := Parse(text)
	if err != nil {
		if fault.CodeOf(err) == fault.InvalidFrontmatter && len(raw) > MaxBytes/2 {
			return nil, err // it has grown too large
		}
		return nil, fault.Wrap(fault.Internal, err, "the frontmatter cannot be written back")
	}
	if !reflect.DeepEqual(again.Values(), d.Values()) || !bytes.Equal(again.body, d.body) {
		return nil, fault.Errorf(fault.Internal, "the frontmatter cannot be written back")
	}
	return text, nil
}

// write returns the YAML of a document, nothing for an empty one.
func write(top *yaml.Node) (raw []byte, err error) {
	if len(top.Content[0].Content) == 0 {
		return nil, nil
	}
	defer rescue(&err)
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(top), enc.Close()); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the frontmatter cannot be written")
	}
	return b.Bytes(), nil
}
