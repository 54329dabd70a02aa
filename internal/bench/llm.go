package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// OverLLM is questions to a language model in HTTP/1.1 on connections kept alive: by
// llm.query to a bridge, or to the model itself. Each answer is waited for before the
// next question of a connection.
const OverLLM Over = "llm"

// KindModel answers questions to a language model at once, at the address of one that
// speaks as OpenAI's do.
const KindModel = "model"

// queryName begins the names of scenarios that ask a language model.
const queryName = "llm.query"

// pacedQueries is the number of questions a second of the paced scenario.
const pacedQueries = 5_000

// queries are the scenarios that ask a model with a number of callers, as fast as it
// goes and paced.
func queries(callers int, payload int) []Scenario {
	s := Scenario{
		Name: fmt.Sprintf(queryName+", %d callers", callers), Shape: Ask, Publishers: callers, QoS: 1,
		Payload: payload, Window: 1, Over: OverLLM,
	}
	paced := s
	paced.Name, paced.Rate = fmt.Sprintf("%s, %d a second", s.Name, pacedQueries), pacedQueries
	return []Scenario{s, paced}
}

// Names of a question to a bridge and to the model itself.
const (
	queryPath  = "/api/v1/commands/llm.query"
	modelPath  = "/v1/chat/completions"
	modelName  = "bench"
	queryHead  = `{"query":"`
	queryTail  = `"}`
	chatHead   = `{"model":"` + modelName + `","stream":true,"messages":[{"role":"user","content":"`
	chatTail   = `"}]}`
	numberMark = "number "
)

// answerQuestion answers a question to the model with the number in it.
func answerQuestion(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != modelPath {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestPayload))
	_, number, found := bytes.Cut(body, []byte(numberMark))
	if err != nil || !found || len(number) < 16 {
		http.Error(w, "the question has no number", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, `data: {"model":"`+modelName+`","choices":[{"delta":{"content":"`+numberMark+`%s"}}]}

data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":128,"completion_tokens":8}}

data: [DONE]

`, number[:16]) // a lost connection needs no answer
}

// serveModel serves [KindModel].
func serveModel(ctx context.Context, address string) error {
	server := &http.Server{Addr: address, ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(answerQuestion)}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// asking is the bridge with a model as its provider.
func (p Peer) asking(model string) Peer {
	flags := []string{"--llm-base-url", "http://" + model + "/v1", "--llm-model", modelName}
	command := p.Command
	p.Command = func(address, dir string) ([]string, error) {
		argv, err := command(address, dir)
		return append(slices.Clip(argv), flags...), err
	}
	return p
}
