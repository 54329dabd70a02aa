package app_test

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/internal/bridgetest"
)

// TestAlertsAskForWhatABridgeMeasures keeps the names of metrics in the alerts
// about a bridge to those that a fresh one shows.
func TestAlertsAskForWhatABridgeMeasures(t *testing.T) {
	text, err := os.ReadFile("../../deploy/prometheus/bridge.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules any
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	status, metrics := ask(t, http.MethodGet, bridgetest.Start(t).HTTPURL("/metrics"))
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
