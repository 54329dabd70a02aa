package a2a

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// Paths of the HTTP door that A2A has.
const (
	Path     = "/a2a"
	CardPath = "/.well-known/agent-card.json"
)

// extension is the URI of the extension of cards with data of the bridge beyond the
// protocol.
const extension = "urn:aibridge:a2a:catalogue:v1"

// Bounds of cards.
const (
	maxSkills      = 1000
	maxDescription = 2 << 10
	maxSchemas     = 256 << 10 // of all skills together
)

// A card describes an agent.
type card struct {
	Name          string                `json:"name"`
	Description   string                `json:"description"`
	Interfaces    []agentInterface      `json:"supportedInterfaces"`
	Version       string                `json:"version"`
	Documentation string                `json:"documentationUrl,omitempty"`
	Capabilities  capabilities          `json:"capabilities"`
	Schemes       map[string]any        `json:"securitySchemes"`
	Requirements  []securityRequirement `json:"securityRequirements"`
	InputModes    []string              `json:"defaultInputModes"`
	OutputModes   []string              `json:"defaultOutputModes"`
	Skills        []agentSkill          `json:"skills"`
}

type agentInterface struct {
	URL     string `json:"url"`
	Binding string `json:"protocolBinding"`
	Tenant  string `json:"tenant,omitempty"`
	Version string `json:"protocolVersion"`
}

type capabilities struct {
	Streaming  bool             `json:"streaming"`
	Push       bool             `json:"pushNotifications"`
	Extensions []agentExtension `json:"extensions,omitempty"`
	Extended   bool             `json:"extendedAgentCard"`
}

type agentExtension struct {
	URI         string `json:"uri"`
	Description string `json:"description"`
	Params      any    `json:"params,omitempty"`
}

type agentSkill struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	Examples    []string `json:"examples,omitempty"`
	InputModes  []string `json:"inputModes,omitempty"`
}

// A securityRequirement is one of the accepted kinds of authentication.
type securityRequirement struct {
	Schemes map[string]map[string][]string `json:"schemes"`
}

// base is the common part of the cards of all agents here.
func (d *Door) base(origin, agent string) *card {
	url := cmp.Or(d.opts.URL, origin+Path)
	one := func(binding string) agentInterface { return agentInterface{url, binding, agent, Version} }
	way := func(name string) securityRequirement {
		return securityRequirement{map[string]map[string][]string{name: {"list": {}}}}
	}
	return &card{
		Name: d.opts.BridgeID, Version: d.opts.Version,
		Description: "An AI Bridge: devices, skills, groups of them and workflows, used by messages. " + howTo + ".",
		Interfaces:  []agentInterface{one("JSONRPC"), one("HTTP+JSON")},
		Capabilities: capabilities{
			Streaming: true, Push: d.pushes.client != nil, Extended: true,
			Extensions: []agentExtension{{URI: extension, Description: "In the extended card: the JSON Schemas of what skills take, and the agents here by their tenants."}},
		},
		Schemes: map[string]any{
			"bearer": map[string]any{"httpAuthSecurityScheme": map[string]string{"scheme": "Bearer", "description": "an API key or a token"}},
			"apiKey": map[string]any{"apiKeySecurityScheme": map[string]string{"location": "header", "name": "X-API-Key"}},
			"mtls":   map[string]any{"mtlsSecurityScheme": map[string]string{"description": "a certificate of the bridge"}},
		},
		Requirements: []securityRequirement{way("bearer"), way("apiKey"), way("mtls")},
		InputModes:   []string{jsonType, "text/plain"}, OutputModes: []string{jsonType, "text/plain"},
		Skills: []agentSkill{{
			ID: "call", Name: "Use a capability", Tags: []string{"devices", "skills", "groups", "workflows"},
			Description: "Makes a device or a skill act. Which there are is told to whom is let in, by the extended card.",
			Examples:    []string{`{"skill_id":"thermostat","capability_id":"set","params":{"celsius":21}}`},
			InputModes:  []string{jsonType},
		}},
	}
}

// cardFor is the card of the agent that a caller talks to, with all that it may use.
func (d *Door) cardFor(ctx context.Context, c *caller) (*card, error) {
	made := d.base(c.origin, c.agent)
	pattern := "*"
	if c.agent != "" {
		set, err := d.opts.Skills.Skill(ctx, c.env, protocol.SkillID(c.agent))
		if err != nil {
			return nil, invalid("tenant", "names no agent here, or none for you")
		}
		made.Name = cmp.Or(set.Name, string(set.ID))
		made.Description = bounded(cmp.Or(set.Description, made.Name)+" – "+howTo+".", maxDescription)
		pattern = c.agent + ".*"
	}
	if !d.opts.HasModel(c.who().Home()) {
		made.InputModes = []string{jsonType}
	}
	box, err := d.opts.Catalogue.Select(ctx, c.env, []string{pattern})
	if err != nil {
		return nil, err
	}
	d.fill(ctx, c, made, box)
	return made, nil
}

// fill adds the usable skills to a card.
func (d *Door) fill(ctx context.Context, c *caller, made *card, box *tools.Toolbox) {
	schemas, size := map[string]json.RawMessage{}, 0
	var skills []agentSkill
	for _, t := range box.Tools() {
		if !shown(t) || len(skills) == maxSkills {
			continue
		}
		skills = append(skills, describe(t))
		if schema := t.JSONSchema(); size+len(schema) <= maxSchemas {
			schemas[t.Name] = schema
			size += len(schema)
		}
	}
	skills = append(skills, d.words(ctx, c)...)
	if len(skills) > 0 {
		made.Skills = skills
	}
	params := map[string]any{"schemas": schemas}
	if c.agent == "" {
		agents := []string{}
		for _, set := range d.opts.Skills.All(ctx, c.env) {
			agents = append(agents, string(set.ID))
		}
		params["agents"] = agents[:min(len(agents), maxSkills)]
	}
	made.Capabilities.Extensions[0].Params = params
}

// words are the skills that a language model is needed for.
func (d *Door) words(ctx context.Context, c *caller) (list []agentSkill) {
	if !d.opts.HasModel(c.who().Home()) {
		return nil
	}
	may := func(action, on string) bool {
		return d.opts.Authorize(ctx, c.who(), action, commands.Resource{Type: "llm", ID: on, Space: c.who().Home()}) == nil
	}
	if may("llm:query", "default") {
		list = append(list, agentSkill{
			ID: "ask", Name: "Ask in words", Description: "A text goes to the language model, which uses the other skills.", Tags: []string{"language-model"},
			Examples: []string{"Is it too warm in the bedroom?"}, InputModes: []string{"text/plain"},
		})
	}
	if c.agent == "" && may("llm:run", "run") {
		list = append(list, agentSkill{
			ID: "run", Name: "Start a workflow", Description: "A workflow or a conversation that a model goes through step by step, with the params of llm.run.start.",
			Tags: []string{"workflow"}, Examples: []string{`{"run":{"package":"climate-check","variables":{"room":"bedroom"}}}`}, InputModes: []string{jsonType},
		})
	}
	return list
}

// shown reports whether a tool is a skill of the bridge as an agent: its own commands
// are not.
func shown(t *tools.Tool) bool { return t.Source != "command" && t.Source != "skill.read" }

func describe(t *tools.Tool) agentSkill {
	tags := []string{t.Source}
	if t.Effect == commands.Read {
		tags = append(tags, "reads")
	} else {
		tags = append(tags, "acts")
	}
	if t.Risk != "" {
		tags = append(tags, "needs-approval")
	}
	return agentSkill{
		ID: t.Name, Name: cmp.Or(t.Title, t.Name), Description: cmp.Or(bounded(t.Told(), maxDescription), t.Name), Tags: tags, InputModes: []string{jsonType},
	}
}

// bounded is the beginning of a text.
func bounded(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

func (d *Door) extendedCard(ctx context.Context, c *caller, r *reader) (any, error) {
	c.as(r, r.text("tenant", maxID))
	if err := r.fault(); err != nil {
		return nil, err
	}
	return d.cardFor(ctx, c)
}

// Card serves the public card. It lists none of the registered skills.
func (d *Door) Card() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "this path takes GET", http.StatusMethodNotAllowed)
			return
		}
		writeCard(w, r, d.base(originOf(r), ""), "public, max-age=300")
	})
}

// writeCard answers with a card, or with no body to a client that has this version.
func writeCard(w http.ResponseWriter, r *http.Request, c *card, keep string) {
	body, err := json.Marshal(c)
	if err != nil {
		http.Error(w, protocol.Internal.String(), http.StatusInternalServerError)
		return
	}
	sum := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	h := w.Header()
	h.Set("Content-Type", jsonType)
	h.Set("Cache-Control", keep)
	h.Set("Etag", tag)
	for had := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		if had = strings.TrimPrefix(strings.TrimSpace(had), "W/"); had == tag || had == "*" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the reader may be gone
	}
}

func originOf(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
