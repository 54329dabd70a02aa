package app_test

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/connect/link"
	"github.com/aibridge/aibridge/connect/site"
	"github.com/aibridge/aibridge/doors/mqtt/queue"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
)

// TestAlertsAskForWhatABridgeMeasures keeps the names of metrics in the alerts
// about a bridge to those that a fresh one shows, if it makes backups by itself, has a
// queue and is linked to another broker: without, there is nothing to be alarmed about.
func TestAlertsAskForWhatABridgeMeasures(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, func(c *app.Config) {
		c.Backup.EveryHours = 24
		c.Queues = []queue.Queue{{Name: "jobs", Topic: "jobs/#"}}
		c.Links = []link.Config{{Name: "away", URL: "mqtt://127.0.0.1:1", Out: []link.Rule{{Topic: "out/#"}}}}
		c.Sites.Join = site.Join{Name: "away", URL: "mqtt://127.0.0.1:1", Files: []string{"*"}, FilesURL: "http://127.0.0.1:1/vfs"}
	})
	areMeasured(t, "../../deploy/prometheus/bridge.rules.yaml", n)
}

// TestAlertsAboutQueuesLeaveDeadLettersOut: there are as many as are kept, and they wait for
// nobody.
func TestAlertsAboutQueuesLeaveDeadLettersOut(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/prometheus/bridge.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	asked := regexp.MustCompile(`aibridge_queue_(messages|filled_ratio|oldest_seconds)\S*`).FindAllString(string(text), -1)
	if len(asked) != 3 {
		t.Errorf("the alerts ask for %q", asked)
	}
	for _, metric := range asked {
		if !strings.Contains(metric, `{queue!~".*/dead"}`) {
			t.Errorf("an alert asks for %s", metric)
		}
	}
}

// TestAlertsAskForWhatABridgeOfAClusterMeasures is the same for the alerts about
// clusters and the dashboard, at a bridge that has another one beside it.
func TestAlertsAskForWhatABridgeOfAClusterMeasures(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	direct := func(c *app.Config) { c.Cluster.Relay = "127.0.0.1:0" }
	a := bridgetest.Start(t, beside(t, url, "a", nil), direct)
	b := bridgetest.Start(t, beside(t, url, "b", a), direct)
	know(t, b.Caller(t, "caller"), 2)
	areMeasured(t, "../../deploy/prometheus/cluster.rules.yaml", b)
	areMeasured(t, "../../deploy/grafana/bridges.json", b)
}

// sampled matches the suffixes of a histogram's samples.
var sampled = regexp.MustCompile(`_(bucket|count|sum)$`)

// areMeasured holds the metrics that alerts or a dashboard name to those of a
// bridge.
func areMeasured(t *testing.T, file string, n *bridgetest.Node) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var any any
	if err := yaml.Unmarshal(text, &any); err != nil { // JSON too
		t.Fatal(err)
	}
	status, metrics := ask(t, http.MethodGet, n.HTTPURL("/metrics"))
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, metrics)
	}
	names := regexp.MustCompile(`aibridge_[a-z_]+`).FindAllString(string(text), -1)
	if len(names) < 8 {
		t.Fatalf("%s names %q", file, names)
	}
	for _, name := range names {
		if !strings.Contains(string(metrics), "# TYPE "+sampled.ReplaceAllString(name, "")+" ") {
			t.Errorf("%s asks for %s, which nobody measures", file, name)
		}
	}
}
