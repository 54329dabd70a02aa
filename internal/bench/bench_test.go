//go:build linux

package bench

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/leaks"
)

// serveEnv makes this test binary serve a broker, as [Hosted] wants of the
// program it starts.
const serveEnv = "AIBRIDGE_BENCH_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		if err := Serve(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	leaks.Verify(m)
}

// hosted is a linked broker, served by this test binary.
func hosted(t testing.TB, kind string) Peer {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Hosted(kind, "/usr/bin/env", serveEnv+"=1", program)
}

// TestCompare is not a test but the comparison itself, for those who develop
// a broker: AIBRIDGE_BENCH="fan-in pairs*" go test ./bench -run Compare -v
func TestCompare(t *testing.T) {
	text := os.Getenv("AIBRIDGE_BENCH")
	if text == "" {
		t.Skip("AIBRIDGE_BENCH names no scenarios")
	}
	scenarios, err := Pick(strings.Fields(text)...)
	if err != nil {
		t.Fatal(err)
	}
	var peers []Peer
	if p, ok := Mosquitto(); ok {
		peers = append(peers, p)
	}
	for _, kind := range Kinds() {
		peers = append(peers, hosted(t, kind))
	}
	report, err := MQTT(context.Background(), Options{
		Peers: peers, Scenarios: scenarios, Rounds: 1, Duration: 2 * time.Second, Quiet: 0.3,
		Progress: func(line string) { t.Log(line) },
	})
	report.WriteTable(os.Stdout)
	if err != nil {
		t.Fatal(err)
	}
}

// TestCompareInvoke is the same for skill.invoke:
// AIBRIDGE_BENCH_BRIDGE=/path/to/aibridge go test ./bench -run CompareInvoke -v
func TestCompareInvoke(t *testing.T) {
	program := os.Getenv("AIBRIDGE_BENCH_BRIDGE")
	if program == "" {
		t.Skip("AIBRIDGE_BENCH_BRIDGE names no program")
	}
	var bare []Peer
	if p, ok := Mosquitto(); ok {
		bare = append(bare, p)
	}
	report, err := Invoke(context.Background(), InvokeOptions{
		Bridge: []string{program, "serve"}, SyncAlways: true, Bare: append(bare, hosted(t, KindMochi)),
		Rounds: 1, Duration: 2 * time.Second, Quiet: 0.3, Progress: func(line string) { t.Log(line) },
	})
	report.WriteTable(os.Stdout)
	if err != nil {
		t.Fatal(err)
	}
}
