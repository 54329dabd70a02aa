package gemini

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/sse"
)

var _ chat.Embedder = (*Provider)(nil)

type embedRequest struct {
	Model      string       `json:"model"`
	Content    embedContent `json:"content"`
	Dimensions int          `json:"outputDimensionality,omitempty"`
}

type embedContent struct {
	Parts []embedPart `json:"parts"`
}

type embedPart struct {
	Text string `json:"text"`
}

// Embed implements [chat.Embedder]. The service returns no counts of tokens.
func (p *Provider) Embed(ctx context.Context, r *chat.EmbedRequest) (*chat.Embeddings, error) {
	model := strings.TrimPrefix(r.Model, "models/")
	batch := struct {
		Requests []embedRequest `json:"requests"`
	}{make([]embedRequest, len(r.Texts))}
	for i, text := range r.Texts {
		batch.Requests[i] = embedRequest{"models/" + model, embedContent{[]embedPart{{text}}}, r.Dimensions}
	}
	body, err := json.Marshal(batch)
	if err != nil {
		return nil, err
	}
	var told struct {
		Embeddings []struct {
			Values []float32 `json:"values"`
		} `json:"embeddings"`
	}
	noStream := func(sse.Event) error { return chat.Errorf(chat.BadResponse, "a stream came instead of vectors") }
	err = p.Client.Post(ctx, "/v1beta/models/"+url.PathEscape(model)+":batchEmbedContents", body, noStream, func(data []byte) error {
		if err := json.Unmarshal(data, &told); err != nil {
			return &chat.Error{Kind: chat.BadResponse, Message: "the vectors cannot be read", Cause: err}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	e := new(chat.Embeddings)
	for _, v := range told.Embeddings {
		e.Vectors = append(e.Vectors, v.Values)
	}
	return e, e.Check(len(r.Texts))
}
