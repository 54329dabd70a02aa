package skill

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/protocol"
)

// The required beginning of a skill.yaml.
const (
	APIVersion = "skill.ooder.net/v1"
	Kind       = "Skill"
)

// The files and folders of a skill.
const (
	ManifestFile = "skill.yaml"
	DocumentFile = "SKILL.md"
	ScriptDir    = "scripts"
	ResourceDir  = "resources"
)

// ReservedPrefix begins the ids of capabilities that the agent itself adds
// to a skill; a skill.yaml may not declare such an id.
const ReservedPrefix = "skill."

// The limits of a skill.yaml.
const (
	MaxManifest     = 256 << 10 // bytes
	maxDepth        = 32        // of nested mappings and lists
	maxNodes        = 20_000
	MaxCapabilities = 100
	maxEndpoints    = 10
	maxScenes       = 100
)

// A Manifest is level 1 of a skill: the content of its skill.yaml. It is immutable
// once parsed.
type Manifest struct {
	ID           protocol.SkillID
	Name         string // 1 to 128 characters
	Version      string // major.minor.patch
	Description  string // 1 to 512 characters
	Type         string // system or custom
	Capabilities []*Capability
	Scenes       []protocol.SceneType // the kinds of scenes it is meant for
	Endpoints    []string             // absolute URLs the skill can also be reached at
	Prompt       *Schema              // of the arguments of its prompt, which is its SKILL.md; nil: none
	Warnings     []*Problem           // oddities that were accepted
}

// A Capability is one thing a skill can do.
type Capability struct {
	ID          protocol.CapabilityID
	Name        string
	Description string
	Params      *Schema // nil: any parameters
	Result      *Schema // nil: any result
	Format      string  // assert if values must have the formats that they name; annotate, or "" if not stated
	Effect      string  // read or act; "" if not stated
	Idempotent  bool    // running it twice is as good as once: it may be retried on another provider
	Risk        string  // low, medium, high, ask or deny; "" if not stated
	Deed        Deed    // when a call is the same deed as another one
}

// Repeatable reports whether running it twice is as good as once.
func (c *Capability) Repeatable() bool { return c.Idempotent || c.Effect == "read" }

// Capability finds a capability by its id, or returns nil.
func (m *Manifest) Capability(id protocol.CapabilityID) *Capability {
	for _, c := range m.Capabilities {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// Parse reads a skill.yaml. It accepts exactly what docs/skills.md describes:
// one YAML document without anchors, aliases and unknown fields. The error
// joins up to ten [Problem] values, each naming file, line and field.
func Parse(file string, data []byte) (*Manifest, error) {
	d := &decoder{file: file}
	root := d.document(data)
	if root == nil {
		return nil, d.err()
	}
	m := d.manifest(root)
	if err := d.err(); err != nil {
		return nil, err
	}
	m.Warnings = d.warnings
	return m, nil
}

func (d *decoder) manifest(root *yaml.Node) *Manifest {
	top := d.fields(root, "", "apiVersion", "kind", "metadata", "spec")
	if top == nil {
		return nil
	}
	d.constant(top.required("apiVersion"), APIVersion)
	d.constant(top.required("kind"), Kind)
	m := &Manifest{Type: "custom"}
	if f := top.required("metadata"); f != nil {
		d.metadata(m, f)
	}
	if f := top.required("spec"); f != nil {
		d.spec(m, f)
	}
	return m
}

// version is the protocol's three-part number, with a pre-release or build
// after it if need be.
var version = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$`)

func (d *decoder) metadata(m *Manifest, f *field) {
	meta := d.fields(f.value, f.path, "id", "name", "version", "description",
		"author", "license", "homepage", "repository", "keywords") // these are for people
	if meta == nil {
		return
	}
	m.ID = protocol.SkillID(d.identifier(meta.required("id"), m.ID.Rule()))
	m.Name = d.text(meta.required("name"), 1, 128)
	m.Description = d.text(meta.required("description"), 1, 512)
	if v := meta.required("version"); v != nil {
		if m.Version = d.text(v, 1, 64); m.Version != "" && !version.MatchString(m.Version) {
			d.fail(v, `must be major.minor.patch, "1.0.0"`)
		}
	}
	for _, name := range []string{"author", "license", "homepage", "repository"} {
		d.text(meta.optional(name), 0, 256)
	}
	for _, item := range d.list(meta.optional("keywords"), 0, 100) {
		d.text(item, 1, 64)
	}
}

func (d *decoder) spec(m *Manifest, f *field) {
	spec := d.fields(f.value, f.path, "type", "capabilities", "scenes", "endpoints", "prompt")
	if spec == nil {
		return
	}
	if t := spec.optional("type"); t != nil {
		m.Type = d.enum(t, "system", "custom")
	}
	seen := map[protocol.CapabilityID]bool{}
	for _, item := range d.list(spec.required("capabilities"), 1, MaxCapabilities) {
		c := d.capability(item)
		if c == nil {
			continue
		}
		if c.ID != "" && seen[c.ID] {
			d.fail(item, "the capability %q is declared twice", c.ID)
		}
		seen[c.ID] = true
		m.Capabilities = append(m.Capabilities, c)
	}
	for _, item := range d.list(spec.optional("scenes"), 0, maxScenes) {
		var scene protocol.SceneType
		m.Scenes = append(m.Scenes, protocol.SceneType(d.identifier(item, scene.Rule())))
	}
	for _, item := range d.list(spec.optional("endpoints"), 1, maxEndpoints) {
		m.Endpoints = append(m.Endpoints, d.endpoint(item))
	}
	if f := spec.optional("prompt"); f != nil {
		m.Prompt = d.prompt(f)
	}
}

// maxArguments bounds the arguments of a prompt.
const maxArguments = 50

// prompt reads the arguments of the prompt of a skill, which are declared as parameters
// are. Clients of MCP give texts.
func (d *decoder) prompt(f *field) *Schema {
	s := d.params(f)
	if len(s.Properties()) > maxArguments {
		d.fail(f, "has %d arguments, at most %d are allowed", len(s.Properties()), maxArguments)
	}
	return s
}

func (d *decoder) capability(f *field) *Capability {
	fields := d.fields(f.value, f.path, "id", "name", "description", "parameters", "returns", "format", "effect", "idempotent", "risk",
		"effect_key", "effect_window_ms", "reconcile")
	if fields == nil {
		return nil
	}
	c := &Capability{
		ID:          protocol.CapabilityID(d.capabilityID(fields.required("id"))),
		Name:        d.text(fields.optional("name"), 1, 128),
		Description: d.text(fields.optional("description"), 1, 512),
		Params:      d.params(fields.optional("parameters")),
		Result:      d.result(fields.optional("returns")),
		Idempotent:  d.boolean(fields.optional("idempotent")),
		Deed:        d.deed(fields),
	}
	if e := fields.optional("effect"); e != nil {
		c.Effect = d.enum(e, "read", "act")
	}
	if f := fields.optional("format"); f != nil {
		c.Format = d.enum(f, "annotate", "assert")
	}
	if r := fields.optional("risk"); r != nil {
		c.Risk = d.enum(r, "low", "medium", "high", "ask", "deny")
	}
	return c
}

// fileName is the form of a capability id, because its script has
// that name.
var fileName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)

func (d *decoder) capabilityID(f *field) string {
	id := d.text(f, 1, 64)
	switch {
	case id == "":
	case !fileName.MatchString(id):
		d.fail(f, "names a script and so consists of letters, digits, dots, hyphens and underscores only, and does not begin with a dot or hyphen")
	case strings.HasSuffix(id, ".sh"):
		d.fail(f, "may not end in .sh: the script %s/%s runs the capability %q", ScriptDir, id, strings.TrimSuffix(id, ".sh"))
	case strings.HasPrefix(id, ReservedPrefix):
		d.fail(f, "may not begin with %q: such capabilities are the agent's own", ReservedPrefix)
	}
	return id
}

func (d *decoder) endpoint(f *field) string {
	text := d.text(f, 1, 256)
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		d.fail(f, "is not a URL: %v", err)
	case u.Scheme == "" || u.Host == "":
		d.fail(f, `must be an absolute URL, "https://host/path"`)
	case u.User != nil:
		d.fail(f, "may not contain a user name or password")
	}
	return text
}

// String is "unit-converter 1.0.0".
func (m *Manifest) String() string { return fmt.Sprintf("%s %s", m.ID, m.Version) }
