package openai

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/sse"
)

var _ chat.Embedder = (*Provider)(nil)

type embedRequest struct {
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	Dimensions int      `json:"dimensions,omitempty"`
}

// Embed implements [chat.Embedder].
func (p *Provider) Embed(ctx context.Context, r *chat.EmbedRequest) (*chat.Embeddings, error) {
	body, err := json.Marshal(embedRequest{r.Model, r.Texts, r.Dimensions})
	if err != nil {
		return nil, err
	}
	var answer []byte
	err = p.Client.Post(ctx, "/embeddings", body, noStream, func(data []byte) error { answer = data; return nil })
	if err != nil {
		return nil, err
	}
	return p.embeddings(answer, len(r.Texts))
}

func noStream(sse.Event) error {
	return chat.Errorf(chat.BadResponse, "a stream came instead of vectors")
}

// embeddings reads an answer. Its vectors may stand in any order.
func (p *Provider) embeddings(answer []byte, texts int) (*chat.Embeddings, error) {
	var told struct {
		Data []struct {
			Index  int       `json:"index"`
			Vector []float32 `json:"embedding"`
		} `json:"data"`
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		} `json:"usage"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(answer, &told); err != nil {
		return nil, &chat.Error{Kind: chat.BadResponse, Message: "the vectors cannot be read", Cause: err}
	}
	if len(told.Error) > 0 && string(told.Error) != "null" {
		return nil, p.Client.Failure(told.Error)
	}
	if len(told.Data) != texts {
		return nil, chat.Errorf(chat.BadResponse, "%d texts were given %d vectors", texts, len(told.Data))
	}
	e := &chat.Embeddings{Vectors: make([][]float32, texts), Usage: chat.Usage{Input: told.Usage.Prompt}}
	for _, d := range told.Data {
		if d.Index < 0 || d.Index >= texts || e.Vectors[d.Index] != nil {
			return nil, chat.Errorf(chat.BadResponse, "the vectors are not numbered as the texts are")
		}
		e.Vectors[d.Index] = d.Vector
	}
	return e, e.Check(texts)
}
