package chat

import "context"

// An Embedder is a [Provider] that turns texts into vectors, those of similar
// meaning into similar ones.
type Embedder interface {
	// Embed returns a vector for each text, in their order and all of the same length,
	// or an [*Error], or the error of ctx.
	Embed(ctx context.Context, r *EmbedRequest) (*Embeddings, error)
}

// An EmbedRequest is a request to an [Embedder].
type EmbedRequest struct {
	Model      string // as the provider names it
	Texts      []string
	Dimensions int // of the vectors; 0 leaves it to the model
}

// Embeddings are the vectors that an [Embedder] made of texts.
type Embeddings struct {
	Vectors [][]float32
	Usage   Usage
}

// Check returns an [*Error] unless there is one vector for each of so many texts, and
// all have the same length.
func (e *Embeddings) Check(texts int) error {
	if len(e.Vectors) != texts {
		return Errorf(BadResponse, "%d texts were given %d vectors", texts, len(e.Vectors))
	}
	for _, v := range e.Vectors {
		if len(v) == 0 || len(v) != len(e.Vectors[0]) {
			return Errorf(BadResponse, "the vectors are not all of one length")
		}
	}
	return nil
}
