package model

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
)

func TestTheConfigurationInTheDocsIsOne(t *testing.T) {
	text, err := os.ReadFile("../../docs/llm.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, ok := strings.Cut(string(text), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	c, err := ParseConfig([]byte(example))
	if !ok || err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil || len(c.Models) != 3 {
		t.Errorf("%d models, %v", len(c.Models), err)
	}
}

// TestDashboardAndAlertsAskForWhatIsMeasured keeps the names in deploy/ to
// those of the metrics.
func TestDashboardAndAlertsAskForWhatIsMeasured(t *testing.T) {
	registry := prometheus.NewRegistry()
	c := at(wiretest.New(t, said("ok")))
	h := newHouse(t, c, func(o *Options) { o.Registerer = registry })
	if _, err := h.ask(t, `{"query":"a"}`); err != nil {
		t.Fatal(err)
	}
	m := h.catalog.Load().models[0]
	h.metrics.asked(m, m.targets[0], alice, nil, chat.Errorf(chat.AuthFailed, "no"), 0, 0)
	h.metrics.failovers.WithLabelValues("m").Inc()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	measured := make(map[string]bool)
	for _, f := range families {
		measured[f.GetName()] = true
	}
	for file, read := range map[string]func([]byte, any) error{"../../deploy/grafana/llm.json": json.Unmarshal, "../../deploy/prometheus/llm.rules.yaml": yaml.Unmarshal} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var any any
		if err := read(text, &any); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		names := regexp.MustCompile(`aibridge_llm_[a-z_]+`).FindAllString(string(text), -1)
		if len(names) < 5 {
			t.Errorf("%s names %d metrics", file, len(names))
		}
		for _, name := range names {
			if !measured[strings.TrimSuffix(name, "_bucket")] {
				t.Errorf("%s asks for %s, which nobody measures", file, name)
			}
		}
	}
}
