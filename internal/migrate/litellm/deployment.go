package litellm

import (
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/aibridge/aibridge/llm/model"
)

// A vendor is the part of a LiteLLM model before the slash.
type vendor struct {
	wire   string
	base   string // "" if the configuration must name it
	keyEnv string // where LiteLLM looks for a key; "" for none
	adapt  func(base string) (string, bool)
}

var vendors = map[string]vendor{
	"openai":      {wire: "openai", base: "https://api.openai.com/v1", keyEnv: "OPENAI_API_KEY"},
	"anthropic":   {wire: "anthropic", base: "https://api.anthropic.com", keyEnv: "ANTHROPIC_API_KEY", adapt: withoutPath},
	"gemini":      {wire: "gemini", base: "https://generativelanguage.googleapis.com", keyEnv: "GEMINI_API_KEY", adapt: unknownBase},
	"azure":       {wire: "openai", keyEnv: "AZURE_API_KEY", adapt: azureV1},
	"ollama":      {wire: "openai", base: "http://localhost:11434/v1", adapt: withV1},
	"ollama_chat": {wire: "openai", base: "http://localhost:11434/v1", adapt: withV1},
	"openrouter":  {wire: "openai", base: "https://openrouter.ai/api/v1", keyEnv: "OPENROUTER_API_KEY"},
	"hosted_vllm": {wire: "openai"},
}

func withV1(base string) (string, bool) { return strings.TrimSuffix(base, "/v1") + "/v1", true }

// withoutPath is the base of an address that may name the path of messages.
func withoutPath(base string) (string, bool) { return strings.TrimSuffix(base, "/v1/messages"), true }

func unknownBase(string) (string, bool) { return "", false }

// azureV1 is the part of an Azure resource that speaks as OpenAI does, with
// deployments as models.
func azureV1(base string) (string, bool) {
	u, err := url.Parse(base)
	if err != nil || !strings.HasSuffix(u.Hostname(), ".openai.azure.com") || strings.Trim(u.Path, "/") != "" {
		return "", false
	}
	return strings.TrimSuffix(base, "/") + "/openai/v1", true
}

// A service is a provider as deployments share it.
type service struct {
	wire, base, keyEnv string
	key                string // as it stands in the configuration; it is never written
}

// A deployment of a model, as far as it was read.
type deployment struct {
	name      string
	line      int
	kind      model.ModelKind
	model     field
	base, key field
	weight    int
	price     model.Price
	leftOut   bool // for a reason that was said
}

func (r *reader) deployment(f field) {
	d := deployment{line: f.line}
	var sections []field
	for _, f := range r.fields(f) {
		switch f.name {
		case "model_name":
			d.name = f.text()
		case "litellm_params", "model_info":
			sections = append(sections, f)
		default:
			r.note(f.line, "%q of a deployment has no counterpart", f.name)
		}
	}
	for _, f := range sections {
		for _, p := range r.fields(f) {
			r.parameter(&d, f.name, p)
		}
	}
	if !d.leftOut {
		r.route(&d)
	}
}

// parameter takes one of litellm_params or model_info.
func (r *reader) parameter(d *deployment, section string, p field) {
	inParams := section == "litellm_params"
	switch {
	case p.name == "<<":
		d.leftOut = true
		r.note(p.line, "%s is merged from elsewhere (<<): the deployment is left out; write its parameters out", section)
	case inParams && p.name == "custom_llm_provider":
		d.leftOut = true
		r.note(p.line, "custom_llm_provider is not understood, and the deployment left out: put the provider before the model, as in openai/gpt-4o")
	case inParams && p.name == "model":
		d.model = p
	case inParams && (p.name == "api_base" || p.name == "base_url"):
		d.base = p
	case inParams && p.name == "api_key":
		d.key = p
	case inParams && p.name == "weight":
		if n, ok := p.number(); ok && n == math.Trunc(n) && n <= 1e6 {
			d.weight = int(n)
		} else {
			r.note(p.line, "weight is not a whole number from 1 to 1000000: the deployment weighs 1")
		}
	case inParams && (p.name == "rpm" || p.name == "tpm"):
		r.note(p.line, "%s has no counterpart: budgets bound principals, keys and spaces (budgets), concurrency a provider; weight shares the load", p.name)
	case inParams && p.name == "api_version":
		r.note(p.line, "api_version is not needed: the v1 API of Azure is used")
	case inParams && p.name == "max_tokens":
		r.note(p.line, "max_tokens has no counterpart: the default of a request is not the most that an answer may have, which max_tokens of a model is")
	case !inParams && p.name == "mode":
		r.mode(d, p)
	case r.cost(d, p):
	default:
		r.note(p.line, "%s.%s has no counterpart", section, p.name)
	}
}

func (r *reader) mode(d *deployment, p field) {
	switch p.text() {
	case "chat":
		d.kind = model.ChatModel
	case "embedding":
		d.kind = model.EmbeddingModel
	default:
		d.leftOut = true
		r.note(p.line, "the mode is neither chat nor embedding: the deployment is left out")
	}
}

// cost takes the price of a token, which is one of a million tokens here.
func (r *reader) cost(d *deployment, p field) bool {
	price, ok := map[string]*float64{
		"input_cost_per_token": &d.price.Input, "output_cost_per_token": &d.price.Output,
		"cache_read_input_token_cost": &d.price.Cached, "cache_creation_input_token_cost": &d.price.CacheWrite,
	}[p.name]
	if !ok {
		return false
	}
	n, err := strconv.ParseFloat(p.text(), 64)
	if err != nil || n < 0 || !(n <= 1000) {
		r.note(p.line, "%s is not a price", p.name)
		return true
	}
	*price, _ = strconv.ParseFloat(strconv.FormatFloat(n*1e6, 'g', 12, 64), 64) // 0.00000015 is 0.15, not 0.15000000000000002
	return true
}

// route makes the route of a deployment, and its provider.
func (r *reader) route(d *deployment) {
	if d.name == "" {
		r.note(d.line, "a deployment without model_name is left out")
		return
	}
	prefix, name, ok := strings.Cut(d.model.text(), "/")
	v, known := vendors[prefix]
	if !ok || !known || name == "" || len(name) > 256 || strings.ContainsAny(name, "*") {
		r.note(max(d.line, d.model.line), "the model of %q is not understood, and the deployment left out: it must be one model of %s", d.name, vendorNames)
		return
	}
	if prefix == "openai" && strings.HasPrefix(name, "responses/") {
		v.wire, name = "responses", strings.TrimPrefix(name, "responses/")
	}
	if d.kind == "" && strings.Contains(name, "embed") {
		r.note(d.line, "whether %q answers or embeds is not said, and the deployment left out: give it model_info.mode", d.name)
		return
	}
	s := service{wire: v.wire, base: v.base}
	if d.base.text() != "" {
		s.base = strings.TrimRight(d.base.text(), "/")
		if ok = v.adapt == nil; !ok {
			s.base, ok = v.adapt(s.base)
		}
	}
	if !ok || s.base == "" || !d.base.scalar() {
		r.note(max(d.line, d.base.line), "the api_base of %q is missing or not understood, and the deployment left out", d.name)
		return
	}
	if !r.key(d, v, &s) {
		return
	}
	provider, ok := r.provider(prefix, s)
	if !ok {
		r.note(max(d.line, d.base.line), "the api_base of %q cannot be used, and the deployment is left out: it must begin with https://, or with http:// for this machine or network, without user and query", d.name)
		return
	}
	if s.key != "" {
		r.note(d.key.line, "a key stands in the configuration and was not copied: write it to %s", r.keyFile(provider))
	}
	if s.key == "" && s.keyEnv == "" && v.keyEnv != "" {
		r.note(d.line, "%q has an api_base and no api_key: no key is sent there, where LiteLLM sends that of %s; if that is meant, say key_env", d.name, v.keyEnv)
	}
	kind := d.kind
	if kind == model.ChatModel {
		kind = "" // the default
	}
	r.add(d.line, d.name, kind, model.Route{Provider: provider, Model: name, Weight: d.weight, Price: d.price})
}

const vendorNames = "openai, anthropic, gemini, azure, ollama, ollama_chat, openrouter or hosted_vllm, as in openai/gpt-4o"

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// key reads the place of a service's key. It reports false when that is not
// understood.
func (r *reader) key(d *deployment, v vendor, s *service) bool {
	key := d.key.text()
	name, fromEnv := strings.CutPrefix(key, "os.environ/")
	switch {
	case fromEnv && variable.MatchString(name):
		s.keyEnv = name
	case fromEnv || !d.key.scalar():
		r.note(d.key.line, "the api_key of %q is not understood, and the deployment left out", d.name)
		return false
	case key != "":
		s.key = key
	case v.keyEnv != "" && (d.base.text() == "" || v.base == ""):
		s.keyEnv = v.keyEnv
	}
	return true
}

// provider is the name of the provider for a service, which may be new.
func (r *reader) provider(prefix string, s service) (name string, ok bool) {
	if name, ok := r.providers[s]; ok {
		return name, true
	}
	name = prefix
	for n := 2; r.hasProvider(name); n++ {
		name = fmt.Sprintf("%s-%d", prefix, n)
	}
	p := model.ProviderConfig{Name: name, Wire: s.wire, BaseURL: s.base, KeyEnv: s.keyEnv}
	if s.key != "" {
		p.KeyFile = r.keyFile(name)
	}
	alone := model.Config{Providers: []model.ProviderConfig{p}}
	if len(s.base) > 1024 || alone.Check() != nil {
		return "", false
	}
	r.config.Providers = append(r.config.Providers, p)
	r.providers[s] = name
	return name, true
}

func (r *reader) hasProvider(name string) bool {
	for _, p := range r.config.Providers {
		if p.Name == name {
			return true
		}
	}
	return false
}

func (r *reader) keyFile(provider string) string { return filepath.Join(r.keys, provider) }
