package openai

import (
	"context"
	"sync/atomic"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
)

// Origin marks the reasoning that came over this wire.
const Origin = "openai-chat"

// A Dialect says in what a service differs from others on this wire.
type Dialect struct {
	// MaxCompletionTokens names the limit max_completion_tokens, as OpenAI's
	// newer models want it, instead of max_tokens. Of those that are known by
	// their name nobody need say so.
	MaxCompletionTokens bool `yaml:"max_completion_tokens"`
	// NoStreamUsage leaves out stream_options, which some services refuse.
	NoStreamUsage bool `yaml:"no_stream_usage"`
	// ReplayReasoning sends reasoning_content back, empty if there is none,
	// with all of the assistant's messages once it called a tool. DeepSeek
	// refuses the request otherwise. A service that was heard to send such
	// content gets it back without being told; this is for the first request.
	ReplayReasoning bool `yaml:"replay_reasoning"`
	// NoStrict leaves out strict for tools and formats, which models get whose
	// family is known to hold to it; Strict says so of all models.
	NoStrict bool `yaml:"no_strict"`
	Strict   bool `yaml:"strict"`
	// NoParallel leaves out parallel_tool_calls.
	NoParallel bool `yaml:"no_parallel"`
	// JSONObject asks for any JSON object where a schema was given, for
	// services without json_schema.
	JSONObject bool `yaml:"json_object"`
}

// A Provider is one service. It implements [chat.Provider].
type Provider struct {
	Client  *wire.Client
	Dialect Dialect

	reasons atomic.Bool // it was heard to send reasoning_content
	extras  wire.Extras
}

var _ chat.Provider = (*Provider)(nil)

// Stream implements [chat.Provider].
func (p *Provider) Stream(ctx context.Context, r *chat.Request, emit func(chat.Event) error) error {
	return p.extras.Ask(r.Model, func(parts *wire.Parts) (told bool, err error) {
		tools := wire.NamesOf(r)
		body, err := p.encode(r, tools, parts)
		if err != nil {
			return false, err
		}
		d := &decoder{client: p.Client, names: tools, origin: p.ownOrigin(), reasons: &p.reasons, out: wire.NewStream(emit)}
		if err = p.Client.Post(ctx, "/chat/completions", body, d.event, d.whole); err == nil {
			err = d.end()
		}
		return !d.out.Empty(), err
	})
}

// Models implements [chat.Provider].
func (p *Provider) Models(ctx context.Context) ([]chat.Model, error) {
	var list struct {
		Data []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"data"`
	}
	if err := p.Client.Get(ctx, "/models", &list); err != nil {
		return nil, err
	}
	models := make([]chat.Model, 0, len(list.Data))
	for _, m := range list.Data {
		models = append(models, chat.Model{ID: m.ID, Name: m.Name})
	}
	return models, nil
}
