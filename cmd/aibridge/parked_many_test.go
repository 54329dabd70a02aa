package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/eventually"
)

// parkedCalls is AIBRIDGE_PARKED: how many calls are parked, "" for 300.
var parkedCalls string

// roomForMany lets 100 000 calls of one principal wait.
const roomForMany = `approvals: {waiting_own: 150000, waiting: 150000, waiting_own_kib: 4194304, waiting_kib: 4194304}
`

// TestManyCallsWaitOverAKill parks 300 calls, or AIBRIDGE_PARKED, kills the bridge,
// and decides about some of those that the next one finds. It logs what a call costs
// that waits, and how soon the next bridge listens.
func TestManyCallsWaitOverAKill(t *testing.T) {
	n := 300
	if parkedCalls != "" {
		var err error
		if n, err = strconv.Atoi(parkedCalls); err != nil {
			t.Fatal(err)
		}
	}
	model := &ringer{}
	server := httptest.NewServer(model)
	defer server.Close()
	defer server.CloseClientConnections()
	data := t.TempDir()
	config := filepath.Join(data, "config.yaml")
	if err := os.WriteFile(config, []byte(roomForMany), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--dev", "--config", config, "--llm-base-url", server.URL + "/v1", "--llm-model", "m-1"}
	var rings atomic.Int32
	serve := func(b *binary) {
		serveBell(t, b, false, func() { rings.Add(1) }, func(c *client.Capability) { c.Risk = "high" })
	}

	atOnce := costAtOnce(t, n/3, flags)
	t.Logf("the same call without approval: %.2f ms of processor time", 1000*atOnce)
	model.said.Store(0)

	bridge := startBinary(t, data, flags...)
	serve(bridge)
	parkMany(t, bridge, 20) // what a first call costs besides
	before := figuresOf(t, bridge)
	parkMany(t, bridge, n-20)
	after := figuresOf(t, bridge)
	t.Logf("parking: %.2f ms of processor time a call", 1000*(after["process_cpu_seconds_total"]-before["process_cpu_seconds_total"])/float64(n-20))
	if more := after["go_goroutines"] - before["go_goroutines"]; more > 200 {
		t.Errorf("%d calls that wait have %v goroutines", n, more)
	}
	bridge.kill()

	began := time.Now()
	bridge = startBinary(t, data, flags...)
	t.Logf("after the kill it listens within %v", time.Since(began).Round(time.Millisecond))
	serve(bridge)
	now := figuresOf(t, bridge)
	if now["aibridge_parked_tasks"] != float64(n) {
		t.Fatalf("%v calls wait", now["aibridge_parked_tasks"])
	}
	t.Logf("%d calls wait: %.0f MiB resident, %.0f MiB of it live on the heap, %v goroutines, %.1f s of processor time since the start", n,
		now["process_resident_memory_bytes"]/(1<<20), now["go_memstats_next_gc_bytes"]/(1+now["go_gc_gogc_percent"]/100)/(1<<20), now["go_goroutines"], now["process_cpu_seconds_total"])

	asked := pendingAt(t, bridge, min(n/3, 2000))
	used := resume(t, bridge, asked, func() bool { return model.said.Load() == int32(len(asked)) })
	t.Logf("resuming: %.2f ms of processor time a call, %v for %d", 1000*used.cpu/float64(len(asked)), used.took.Round(time.Millisecond), len(asked))
	if got := rings.Load(); got != int32(len(asked)) {
		t.Errorf("the bell was rung %d times", got)
	}
}

// costAtOnce has a model ring the bell n times at a bridge of its own that asks nobody,
// and returns the seconds of processor time that one query took: what a call costs
// that is neither parked nor resumed.
func costAtOnce(t *testing.T, n int, flags []string) float64 {
	t.Helper()
	b := startBinary(t, t.TempDir(), flags...)
	defer b.kill()
	serveBell(t, b, false, func() {})
	ringMany(t, b, 20, "end_turn")
	before := figuresOf(t, b)
	ringMany(t, b, n, "end_turn")
	return (figuresOf(t, b)["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]) / float64(n)
}

// A cost is what something took of a bridge.
type cost struct {
	cpu  float64 // seconds of processor time of its whole process
	took time.Duration
}

// resume approves of calls, and returns what that and all that follows of it costs
// the bridge: the decision over MQTT, taking up, policy, the claim, the call of the
// device over MQTT, the question to the model over HTTP, the end of the task and the
// audit trail of all that, with NATS and the garbage collector. The models have had
// their last words before anybody looks at the metrics, each look takes some ms, and
// there is one in a fifth of a second.
func resume(t *testing.T, b *binary, asked []pending, said func() bool) cost {
	t.Helper()
	b.rests(t)
	before, began := figuresOf(t, b), time.Now()
	approveAll(t, b, asked)
	eventually.Holds(t, "the models have heard of their calls", said)
	after := before
	eventually.Holds(t, "what was approved is done", seldom(func() bool {
		after = figuresOf(t, b)
		return after["aibridge_parked_tasks"] == before["aibridge_parked_tasks"]-float64(len(asked))
	}))
	return cost{after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"], time.Since(began)}
}

// seldom is a condition that is looked at five times a second.
func seldom(condition func() bool) func() bool {
	var last time.Time
	return func() bool {
		if time.Since(last) < 200*time.Millisecond {
			return false
		}
		last = time.Now()
		return condition()
	}
}

// rests waits until a bridge that has just begun does nothing any more.
func (b *binary) rests(t *testing.T) {
	t.Helper()
	was, used := 0.0, 0.0
	eventually.Holds(t, "the bridge rests", seldom(func() bool {
		was, used = used, figuresOf(t, b)["process_cpu_seconds_total"]
		return used-was < 0.05
	}))
}

// parkMany has a model want to ring the bell n times, each of which somebody has to
// agree to.
func parkMany(t *testing.T, b *binary, n int) {
	t.Helper()
	ringMany(t, b, n, "waiting")
}

// ringMany has a model want to ring the bell n times, by 32 callers at once, who are
// told that their query finished for the reason.
func ringMany(t *testing.T, b *binary, n int, reason string) {
	t.Helper()
	c := dial(t, b)
	together(t, n, func(int) {
		got, err := client.Call[struct {
			Finish string `json:"finish_reason"`
		}](t.Context(), c, "llm.query", json.RawMessage(`{"query":"Ring, please","tools":["bell.*"],"approval_wait_ms":0}`), client.Fresh())
		if err != nil || got.Finish != reason {
			t.Errorf("told %+v, %v\n%s", got, err, b.log)
		}
	})
}

// together does something for each of n numbers, 32 at once, until something fails.
func together(t *testing.T, n int, do func(i int)) {
	t.Helper()
	var next atomic.Int64
	var callers sync.WaitGroup
	for range min(n, 32) {
		callers.Go(func() {
			for i := next.Add(1); i <= int64(n) && !t.Failed(); i = next.Add(1) {
				do(int(i - 1))
			}
		})
	}
	callers.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// A pending is an approval that waits for a decision.
type pending struct {
	ID    string `json:"approval_id"`
	Nonce string `json:"nonce"`
}

// pendingAt lists n approvals that wait.
func pendingAt(t *testing.T, b *binary, n int) (asked []pending) {
	t.Helper()
	c := dial(t, b)
	for params := `{"state":"pending","limit":200}`; len(asked) < n; {
		var page struct {
			Approvals []pending
			Next      string `json:"next_cursor"`
		}
		ask(t, c, "approval.list", params, &page)
		if len(page.Approvals) == 0 {
			t.Fatalf("only %d approvals are listed", len(asked))
		}
		asked, params = append(asked, page.Approvals...), fmt.Sprintf(`{"state":"pending","limit":200,"cursor":%q}`, page.Next)
	}
	return asked[:n]
}

// approveAll decides about approvals.
func approveAll(t *testing.T, b *binary, asked []pending) {
	t.Helper()
	c := dial(t, b)
	together(t, len(asked), func(i int) {
		if _, err := client.Call[json.RawMessage](t.Context(), c, "approval.decide", map[string]string{"approval_id": asked[i].ID, "nonce": asked[i].Nonce, "decision": "approve"}); err != nil {
			t.Error(err)
		}
	})
}

// figuresOf are the metrics of a bridge that have no labels.
func figuresOf(t *testing.T, b *binary) map[string]float64 {
	t.Helper()
	r, err := http.Get("http://" + b.addresses.HTTP + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	figures := make(map[string]float64)
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if f, err := strconv.ParseFloat(value, 64); err == nil {
			figures[name] = f
		}
	}
	return figures
}
