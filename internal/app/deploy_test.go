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
	n := bridgetest.Start(t, func(c *app.Config) { c.Backup.EveryHours = 24 })
	areMeasured(t, "../../deploy/prometheus/bridge.rules.yaml", n)
}

// TestAlertsAskForWhatABridgeOfAClusterMeasures is the same for the alerts about
// clusters, at a bridge that has another one beside it.
func TestAlertsAskForWhatABridgeOfAClusterMeasures(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	a := together(t, url, "a", nil)
	b := together(t, url, "b", a)
	know(t, b.Caller(t, "caller"), 2)
	areMeasured(t, "../../deploy/prometheus/cluster.rules.yaml", b)
}

// areMeasured holds the metrics that alerts name to those of a bridge.
func areMeasured(t *testing.T, file string, n *bridgetest.Node) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rules any
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
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
