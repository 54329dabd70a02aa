package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
)

// A library is a provider that answers everything with "Done." and makes
// vectors of what texts are about, as long as it is not down.
type library struct {
	mu      sync.Mutex
	down    bool
	vectors int      // requests for
	offered []string // tools, in the last question
}

func (l *library) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/v1/embeddings":
		l.vectors++
		if l.down {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var asked struct {
			Input []string `json:"input"`
		}
		_ = json.Unmarshal(body, &asked)
		var data []string
		for i, text := range asked.Input {
			warm, other := 0.1, 1.0
			if strings.Contains(text, "freezing") || strings.Contains(text, "heater") {
				warm, other = 1, 0
			}
			data = append(data, fmt.Sprintf(`{"index":%d,"embedding":[%v,%v]}`, i, warm, other))
		}
		_, _ = fmt.Fprintf(w, `{"data":[%s],"usage":{"prompt_tokens":3}}`, strings.Join(data, ","))
	case "/v1/chat/completions":
		var asked struct {
			Tools []struct {
				Function struct {
					Name string `json:"name"`
				} `json:"function"`
			} `json:"tools"`
		}
		_ = json.Unmarshal(body, &asked)
		l.offered = nil
		for _, tool := range asked.Tools {
			l.offered = append(l.offered, tool.Function.Name)
		}
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"Done."},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	default:
		http.NotFound(w, r)
	}
}

func (l *library) lastOffered() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.offered
}

func TestTheMostRelevantToolsAreFoundByTheirMeaning(t *testing.T) {
	t.Parallel()
	l := new(library)
	provider := httptest.NewServer(l)
	t.Cleanup(provider.Close)
	file := filepath.Join(t.TempDir(), "llm.yaml")
	config := fmt.Sprintf(`
providers: [{name: library, wire: openai, base_url: "%s/v1"}]
models:
  - {name: house, routes: [{provider: library}]}
  - {name: meaning, kind: embedding, routes: [{provider: library, model: small}]}
`, provider.URL)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	n := bridgetest.Start(t, func(c *app.Config) {
		c.LLM.File, c.ToolLoop.Offered, c.ToolLoop.Patience = file, 2, 60_000
	})
	for _, skill := range []string{"alarm", "bell", "heater", "lamp"} {
		n.Device(t, skill, skill, `["on"]`)
	}
	c := n.Caller(t, "caller")
	ask := func() []string {
		t.Helper()
		must(t, c, "llm.query", `{"query":"I am freezing","tools":["*"]}`)
		return l.lastOffered()
	}
	want := []string{"heater_on", "skill_read"} // which is pinned
	if got := ask(); !slices.Equal(got, want) {
		t.Errorf("offered %q", got)
	}
	l.mu.Lock()
	l.down = true
	l.mu.Unlock()
	n.Device(t, "radio", "radio", `["on"]`) // of which there is no vector yet
	eventually.Holds(t, "the radio is a tool", func() bool {
		return slices.Contains(namesIn(modelFor(t, n, "ada", "anonymous").box("*")), "radio.on")
	})
	if got := ask(); len(got) != 2 || slices.Equal(got, want) {
		t.Errorf("by words alone, which have nothing in common with any tool, offered %q", got)
	}
	response, err := bridgetest.HTTPClient(t).Get(n.HTTPURL("/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	metrics, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`aibridge_tools_retrievals_total{by="blended"} 1`, `aibridge_tools_retrievals_total{by="failed"} 1`,
		`aibridge_llm_embeddings_total{model="meaning",outcome="ok",provider="library",space="default"} 2`,
	} {
		if !strings.Contains(string(metrics), line+"\n") {
			t.Errorf("/metrics has no %s", line)
		}
	}
}
