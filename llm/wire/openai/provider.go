package openai

import (
	"context"
	"sync/atomic"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
)

// Origin marks the reasoning of this wire.
const Origin = "openai-chat"

// A Dialect holds the differences of a service from others on this wire.
type Dialect struct {
	// MaxCompletionTokens names the limit max_completion_tokens instead of max_tokens,
	// for OpenAI's newer models. Models that are known by their name need no setting.
	MaxCompletionTokens bool `yaml:"max_completion_tokens"`
	// NoStreamUsage leaves out stream_options, which some services refuse.
	NoStreamUsage bool `yaml:"no_stream_usage"`
	// ReplayReasoning sends reasoning_content back, empty if there is none, with all of
	// the assistant's messages once it called a tool. DeepSeek refuses the request
	// otherwise. A service that has sent such content gets it back without the setting,
	// which is for the first request.
	ReplayReasoning bool `yaml:"replay_reasoning"`
	// NoStrict leaves out strict for tools and formats. By default only models of
	// families that are known to observe it get it; with Strict all models do.
	NoStrict bool `yaml:"no_strict"`
	Strict   bool `yaml:"strict"`
	// NoParallel leaves out parallel_tool_calls.
	NoParallel bool `yaml:"no_parallel"`
	// JSONObject requests any JSON object instead of one by a schema, for services
	// without json_schema.
	JSONObject bool `yaml:"json_object"`
}

// A Provider is one service. It implements [chat.Provider].
type Provider struct {
	Client  *wire.Client
	Dialect Dialect

	reasons atomic.Bool // the service has sent reasoning_content
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
