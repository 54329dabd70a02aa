package app_test

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
)

// TestAlertsAskForWhatABridgeMeasures keeps the names of metrics in the alerts
// about a bridge to those that a fresh one shows, if it makes backups by itself:
// one that makes none has none that are too old.
func TestAlertsAskForWhatABridgeMeasures(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/prometheus/bridge.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules any
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	n := bridgetest.Start(t, func(c *app.Config) { c.Backup.EveryHours = 24 })
	status, metrics := ask(t, http.MethodGet, n.HTTPURL("/metrics"))
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, metrics)
	}
	names := regexp.MustCompile(`aibridge_[a-z_]+`).FindAllString(string(text), -1)
	if len(names) < 8 {
		t.Fatalf("the alerts name %q", names)
	}
	for _, name := range names {
		if !strings.Contains(string(metrics), "# TYPE "+strings.TrimSuffix(name, "_bucket")+" ") {
			t.Errorf("the alerts ask for %s, which nobody measures", name)
		}
	}
}
