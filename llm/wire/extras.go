package wire

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/aibridge/aibridge/llm/chat"
)

// An Extra is an optional part of a request: a service that refuses it can answer
// without.
type Extra string

// The optional parts of requests.
const (
	Strict       Extra = "strict"        // tools and formats to the letter
	Encrypted    Extra = "encrypted"     // encrypted reasoning, to go back
	Summary      Extra = "summary"       // readable reasoning
	Effort       Extra = "effort"        // effort of reasoning
	Replay       Extra = "replay"        // reasoning of earlier answers
	StreamUsage  Extra = "stream_usage"  // counts at the end of a stream
	OneCall      Extra = "one_call"      // permission of parallel calls
	PromptCache  Extra = "prompt_cache"  // marks of the common prefix
	UsualMaximum Extra = "usual_maximum" // the limit under its usual name instead of its other one
)

// namedBy are words of refusals that name a part. Names of fields are in single quotes.
// The map is never changed.
var namedBy = map[Extra][]string{
	Strict:       {"strict", "compiled grammar", "too complex for compilation", "invalid schema for"},
	Encrypted:    {"encrypted_content", "encrypted content", "'include'", "'include["},
	Summary:      {"reasoning.summary", "'summary'", "reasoning summar"},
	Effort:       {"reasoning_effort", "reasoning.effort", "'reasoning'", "thinking", "effort"},
	Replay:       {"reasoning_content", "reasoning_details", "extra_content", "encrypted_content", "encrypted content", "signature", "'reasoning'"},
	StreamUsage:  {"stream_options", "include_usage"},
	OneCall:      {"parallel_tool_calls"},
	PromptCache:  {"cache_control"},
	UsualMaximum: {"max_completion_tokens"},
}

// Extras are the optional parts that the models of a service have refused. The zero
// value is ready to use. It is safe for use by many goroutines.
type Extras struct {
	mu      sync.Mutex
	refused map[string][]Extra // by model
}

// maxLearned is the greatest number of models whose refusals are recorded.
const maxLearned = 256

// Parts are the optional parts of one request.
type Parts struct {
	without []Extra
	used    []Extra
}

// With reports whether a request may have a part, and records that it has.
func (p *Parts) With(e Extra) bool {
	if slices.Contains(p.without, e) {
		return false
	}
	if !slices.Contains(p.used, e) {
		p.used = append(p.used, e)
	}
	return true
}

// named are the parts of the request that a refusal names.
func (p *Parts) named(refusal *chat.Error) (list []Extra) {
	text := strings.ToLower(refusal.Message + " '" + refusal.Param + "'")
	text = strings.NewReplacer("`", "'", `"`, "'").Replace(text)
	for _, e := range p.used {
		if slices.ContainsFunc(namedBy[e], func(words string) bool { return strings.Contains(text, words) }) {
			list = append(list, e)
		}
	}
	return list
}

// Ask asks a model by ask, which reports whether a part of the answer was emitted.
// After a refusal that names optional parts of the request, Ask asks once more without
// them. If that succeeds, later requests leave them out at once.
func (x *Extras) Ask(model string, ask func(*Parts) (told bool, err error)) error {
	parts := &Parts{without: x.known(model)}
	told, err := ask(parts)
	refusal, _ := errors.AsType[*chat.Error](err)
	if refusal == nil || refusal.Kind != chat.BadRequest || told {
		return err
	}
	named := parts.named(refusal)
	if len(named) == 0 {
		return err
	}
	if _, err = ask(&Parts{without: append(slices.Clip(parts.without), named...)}); err == nil {
		x.learn(model, named)
	}
	return err
}

func (x *Extras) known(model string) []Extra {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.refused[model])
}

func (x *Extras) learn(model string, named []Extra) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.refused == nil || len(x.refused) >= maxLearned {
		x.refused = make(map[string][]Extra)
	}
	for _, e := range named {
		if !slices.Contains(x.refused[model], e) {
			x.refused[model] = append(x.refused[model], e)
		}
	}
}
