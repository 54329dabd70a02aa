// Package responses is the adapter of OpenAI's Responses API, without state at the
// provider: nothing is stored there, and reasoning travels encrypted in both
// directions.
package responses

import (
	"context"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
	"github.com/aibridge/aibridge/llm/wire/openai"
)

// Origin marks items of this wire, which go back to it unchanged.
const Origin = "openai-responses"

// A Dialect holds the abilities of a service's models.
type Dialect struct {
	// NoReasoning leaves out the options that only reasoning models understand. By
	// default only models of families that are known to reason get them; with Reasoning
	// all models do.
	NoReasoning bool `yaml:"no_reasoning"`
	Reasoning   bool `yaml:"reasoning"`
	// NoStrict leaves out strict for tools and formats. By default only models of
	// families that are known to observe it get it; with Strict all models do.
	NoStrict bool `yaml:"no_strict"`
	Strict   bool `yaml:"strict"`
}

// A Provider is one service. It implements [chat.Provider].
type Provider struct {
	Client  *wire.Client
	Dialect Dialect

	extras wire.Extras
}

var (
	_ chat.Provider = (*Provider)(nil)
	_ chat.Embedder = (*Provider)(nil)
)

// Stream implements [chat.Provider].
func (p *Provider) Stream(ctx context.Context, r *chat.Request, emit func(chat.Event) error) error {
	return p.extras.Ask(r.Model, func(parts *wire.Parts) (told bool, err error) {
		tools := wire.NamesOf(r)
		body, err := p.encode(r, tools, parts)
		if err != nil {
			return false, err
		}
		d := &decoder{client: p.Client, names: tools, out: wire.NewStream(emit), items: make(map[int]*item), known: make(map[string]bool)}
		if err = p.Client.Post(ctx, "/responses", body, d.event, d.whole); err == nil {
			err = d.end()
		}
		return !d.out.Empty(), err
	})
}

// Models implements [chat.Provider].
func (p *Provider) Models(ctx context.Context) ([]chat.Model, error) {
	return (&openai.Provider{Client: p.Client}).Models(ctx)
}

// Embed implements [chat.Embedder].
func (p *Provider) Embed(ctx context.Context, r *chat.EmbedRequest) (*chat.Embeddings, error) {
	return (&openai.Provider{Client: p.Client}).Embed(ctx, r)
}
