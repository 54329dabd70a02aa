package drill

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/gobuild"
)

// serveNATSArgument makes this program a NATS server instead of a test.
const serveNATSArgument = "drill-nats"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == serveNATSArgument {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := ServeNATS(ctx, os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestThreeBridgesOfWhichOneWorksKeepTheirPromises is a short drill of standby:
// three bridges on one NATS server, one fault of each kind that needs no election,
// which on a busy machine may not come to an end. Only what is counted decides; how
// long things took does not. It runs when it is asked for:
//
//	AIBRIDGE_DRILL=1 go test -run Promises -v ./internal/bench/drill
func TestThreeBridgesOfWhichOneWorksKeepTheirPromises(t *testing.T) {
	if os.Getenv("AIBRIDGE_DRILL") == "" {
		t.Skip("AIBRIDGE_DRILL is not set")
	}
	bridge := filepath.Join(t.TempDir(), "aibridge")
	if out, err := gobuild.Command(t.Context(), "build", "-o", bridge, "github.com/aibridge/aibridge/cmd/aibridge").CombinedOutput(); err != nil {
		t.Fatalf("build the bridge: %v\n%s", err, out)
	}
	dir := t.TempDir()
	report, err := Run(t.Context(), Options{
		Bridge: []string{bridge, "serve"}, NATS: []string{os.Args[0], serveNATSArgument}, Dir: dir,
		Mode: Standby, Servers: 1, Faults: []Fault{Kill, Pause, Partition, Leader, Rolling, Move}, Seed: 1,
		Longest: 6 * time.Second, Patience: 5 * time.Minute,
		// These are the promises that a machine that stands still breaks, too.
		Allow:    []Promise{TrueReadiness, QoS0},
		Progress: func(line string) { t.Log(line) },
	})
	if err != nil {
		t.Error(err)
	}
	if broken := report.Failures(); len(broken) > 0 {
		t.Errorf("broken: %v", broken)
		tellLogs(t, dir)
	}
	for _, r := range report.Rounds {
		if r.Acknowledged == 0 || r.Succeeded == 0 {
			t.Errorf("nothing was acknowledged in round %d, %s: %+v", r.Round, r.Fault, r)
		}
	}
}

// tellLogs shows the ends of the logs of bridges.
func tellLogs(t *testing.T, dir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "bridge-*", "*.log"))
	if err != nil {
		t.Error(err)
	}
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		lines := strings.Split(string(text), "\n")
		t.Logf("%s:\n%s", filepath.Base(path), strings.Join(lines[max(len(lines)-40, 0):], "\n"))
	}
}
