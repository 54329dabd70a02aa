package litellm

import (
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/llm/model"
)

// counterparts name the counterpart of a setting, by section and name.
var counterparts = map[string]string{
	"router_settings.num_retries":               retries,
	"litellm_settings.num_retries":              retries,
	"router_settings.timeout":                   timeouts,
	"router_settings.stream_timeout":            timeouts,
	"litellm_settings.request_timeout":          timeouts,
	"router_settings.allowed_fails":             breakers,
	"router_settings.cooldown_time":             breakers,
	"router_settings.context_window_fallbacks":  special,
	"litellm_settings.context_window_fallbacks": special,
	"router_settings.content_policy_fallbacks":  special,
	"litellm_settings.content_policy_fallbacks": special,
	"litellm_settings.default_fallbacks":        "give each model its routes of higher priority",
	"litellm_settings.drop_params":              "a request that is refused for an optional part is repeated without it",
	"general_settings.master_key":               "callers have keys of their own (aibridge key create), the first is DATA/admin.key",
	"general_settings.database_url":             "keys and spending are stored in the bridge's data folder; keys of LiteLLM are made anew (aibridge key create)",
}

const (
	retries  = "a failed request goes to the next provider; retry_count of a request repeats it"
	timeouts = "the timeout of a request bounds it, and idle of a provider the silence of an answer"
	breakers = "after three failures in a row a provider is avoided for a while"
	special  = "a model has one order of routes for all failures (priority)"
)

// settings takes one of the sections beside the models.
func (r *reader) settings(section field) {
	all := r.fields(section)
	slices.SortStableFunc(all, func(a, b field) int { return rank(a) - rank(b) })
	var cache, parameters field
	for _, f := range all {
		name := section.name + "." + f.name
		switch name {
		case "router_settings.model_group_alias":
			r.aliases(f)
		case "router_settings.fallbacks", "litellm_settings.fallbacks":
			r.fallbacks(f)
		case "router_settings.routing_strategy":
			if f.text() != "simple-shuffle" {
				r.note(f.line, "the routing strategy is not taken over: load is shared by weight among routes of one priority")
			}
		case "litellm_settings.cache":
			cache = f
		case "litellm_settings.cache_params":
			parameters = f
		default:
			if instead, ok := counterparts[name]; ok {
				r.note(f.line, "%s is not taken over: %s", f.name, instead)
			} else {
				r.note(f.line, "%s has no counterpart", name)
			}
		}
	}
	r.cache(cache, parameters)
}

// rank puts aliases before the fallbacks that may name them.
func rank(f field) int {
	if f.name == "model_group_alias" {
		return 0
	}
	return 1
}

func (r *reader) aliases(f field) {
	for _, a := range r.fields(f) {
		of := a.text()
		if a.value.Kind == yaml.MappingNode {
			for _, p := range r.fields(a) {
				if p.name == "model" {
					of = p.text()
				} else {
					r.note(p.line, "%q of an alias has no counterpart", p.name)
				}
			}
		}
		i, known := r.index[of]
		if _, taken := r.index[a.name]; !known || taken {
			r.note(a.line, "the alias %q is left out: it has the name of a model, or that of none behind it", a.name)
			continue
		}
		named := r.config.Models[i]
		named.Aliases = append(slices.Clone(named.Aliases), a.name)
		if !r.fits(named) {
			r.note(a.line, "%q cannot be an alias", a.name)
			continue
		}
		r.config.Models[i], r.index[a.name] = named, i
	}
}

// fallbacks gives models the routes of others, which are tried later.
func (r *reader) fallbacks(list field) {
	own := make(map[string][]model.Route) // fallbacks of fallbacks are not followed
	for _, m := range r.config.Models {
		for _, route := range m.Routes {
			if route.Priority == 0 {
				own[m.Name] = append(own[m.Name], route)
			}
		}
	}
	for _, item := range r.items(list) {
		for _, f := range r.fields(item) {
			i, known := r.index[f.name]
			if !known {
				r.note(f.line, "there is no model %q here that could fall back", f.name)
				continue
			}
			if len(own[r.config.Models[i].Name]) != len(r.config.Models[i].Routes) {
				r.note(f.line, "%q has fallbacks already: these are left out", f.name)
				continue
			}
			for n, other := range r.items(f) {
				r.fallback(i, n+1, other, own)
			}
		}
	}
}

// fallback appends the routes of one model to another, at a priority.
func (r *reader) fallback(i, priority int, other field, own map[string][]model.Route) {
	j, known := r.index[other.text()]
	if !known || j == i {
		r.note(other.line, "a fallback of %q is left out: it is no other model here", r.config.Models[i].Name)
		return
	}
	made := r.config.Models[i]
	made.Routes = slices.Clone(made.Routes)
	for _, route := range own[r.config.Models[j].Name] {
		route.Priority = priority
		made.Routes = append(made.Routes, route)
	}
	added := len(made.Routes) - len(r.config.Models[i].Routes)
	if r.routes+added > maxRoutes {
		r.note(other.line, "there are more than %d routes with this fallback, which is left out", maxRoutes)
		return
	}
	if made.Kind != r.config.Models[j].Kind || !r.fits(made) {
		r.note(other.line, "%q cannot stand in for %q: vectors of different models cannot be compared", other.text(), made.Name)
		return
	}
	r.routes += added
	r.config.Models[i] = made
}

// cache takes how long answers are kept.
func (r *reader) cache(cache, parameters field) {
	if cache.value == nil || !cache.true() {
		if cache.value != nil && !strings.EqualFold(cache.text(), "false") {
			r.note(cache.line, "cache is neither true nor false")
		}
		if parameters.value != nil {
			r.note(parameters.line, "cache_params have no counterpart while cache is not true")
		}
		return
	}
	if parameters.value == nil {
		parameters = field{"cache_params", cache.line, &yaml.Node{Kind: yaml.MappingNode}}
	}
	kind, ttl := "local", time.Duration(0)
	for _, p := range r.fields(parameters) {
		switch p.name {
		case "type":
			kind = p.text()
		case "ttl":
			if n, ok := p.number(); ok {
				ttl = time.Duration(n * float64(time.Second)).Round(time.Second)
			}
		default:
			r.note(p.line, "cache_params.%s has no counterpart", p.name)
		}
	}
	if ttl <= 0 || kind != "local" && kind != "redis" {
		r.note(cache.line, "the cache is not taken over, for its ttl is not said or its type is neither local nor redis: cache.ttl keeps answers")
		return
	}
	r.config.Cache.TTL = ttl
	r.note(cache.line, "answers are cached in the bridge's memory, for each principal alone; cache.shared shares them in a space")
}
