package commands_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

func batchOf(t *testing.T, r *protocol.Response) commands.BatchResult {
	t.Helper()
	var b commands.BatchResult
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if err := json.Unmarshal(r.Result, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

// shape is a batch's result in short, "0:success 1:failed".
func shape(b commands.BatchResult) string {
	parts := make([]string, len(b.Results))
	for i, r := range b.Results {
		parts[i] = fmt.Sprintf("%d:%s", r.Index, r.Status)
	}
	return strings.Join(parts, " ")
}

// sleeper sleeps as many milliseconds as its text has letters and fails if it
// begins with x.
func sleeper(order *[]string) commands.Command {
	var mu sync.Mutex
	return define("sleep", commands.Read, func(ctx context.Context, call *commands.Call, s string) (string, error) {
		_ = call.Park(ctx, func(context.Context) error { time.Sleep(time.Duration(len(s)) * time.Millisecond); return nil })
		mu.Lock()
		defer mu.Unlock()
		*order = append(*order, s)
		if strings.HasPrefix(s, "x") {
			return "", protocol.Errorf(protocol.NotFound, "no %s", s)
		}
		return s, nil
	})
}

func entries(texts ...string) string {
	parts := make([]string, len(texts))
	for i, s := range texts {
		parts[i] = fmt.Sprintf(`{"command":"test.sleep","params":{"text":%q}}`, s)
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func TestABatchRunsInOrderOrSideBySide(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var order []string
		n := newNode(t, commands.RouterOptions{Workers: 2}, sleeper(&order))
		began := time.Now()
		b := batchOf(t, n.call("1", "batch.execute", `{"commands":`+entries("ccc", "x", "a")+`}`))
		if took := time.Since(began); took != 5*time.Millisecond || strings.Join(order, " ") != "ccc x a" {
			t.Errorf("sequential: %v in %v", order, took)
		}
		if b.Total != 3 || b.SuccessCount != 2 || b.FailureCount != 1 || shape(b) != "0:success 1:failed 2:success" {
			t.Errorf("got %+v", b)
		}
		if string(b.Results[0].Result) != `{"text":"ccc"}` || !strings.Contains(string(b.Results[1].Error), `"code":"3001"`) || string(b.Results[0].Error) != "null" {
			t.Errorf("got %s, %s", b.Results[0].Result, b.Results[1].Error)
		}

		order, began = nil, time.Now()
		b = batchOf(t, n.call("2", "batch.execute", `{"commands":`+entries("ccc", "x", "aa")+`,"mode":"parallel"}`))
		if took := time.Since(began); took != 3*time.Millisecond || strings.Join(order, " ") != "x aa ccc" {
			t.Errorf("parallel: %v in %v", order, took)
		}
		if shape(b) != "0:success 1:failed 2:success" {
			t.Errorf("got %s", shape(b))
		}
	})
}

func TestABatchStopsOnError(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var order []string
		n := newNode(t, commands.RouterOptions{}, sleeper(&order))
		b := batchOf(t, n.call("1", "batch.execute", `{"commands":`+entries("a", "x", "b", "c")+`,"stop_on_error":true}`))
		if shape(b) != "0:success 1:failed 2:skipped 3:skipped" || len(order) != 2 || b.SuccessCount != 1 || b.FailureCount != 1 {
			t.Errorf("got %+v", b)
		}
	})
}

func TestABatchNeedsAWorkerOnlyWhileSomethingRuns(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var order []string
		n := newNode(t, commands.RouterOptions{Workers: 1}, sleeper(&order))
		var answers []<-chan *protocol.Response
		for i := range 5 { // with a slot each for batch and entry, this would never end
			answers = append(answers, n.submit(fmt.Sprint(i), "batch.execute", `{"commands":`+entries("a", "b", "c")+`,"mode":"parallel"}`))
		}
		for _, a := range answers {
			if b := batchOf(t, <-a); b.SuccessCount != 3 {
				t.Errorf("got %+v", b)
			}
		}
	})
}

func TestBatchesAreCheckedBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	var order []string
	n := newNode(t, commands.RouterOptions{}, sleeper(&order))
	for params, want := range map[string]string{
		`{"commands":[]}`: "1001",
		`{"commands":[` + strings.Repeat(`{"command":"test.sleep"},`, 100) + `{"command":"test.sleep"}]}`: "1001",
		`{"commands":[{"command":"test.sleep"},{"command":"batch.execute"}]}`:                             "1007",
		`{"commands":[{"command":"test.sleep"}],"mode":"both"}`:                                           "1001",
		`{"commands":[{"comand":"test.sleep"}]}`:                                                          "1001",
	} {
		wantSaid(t, n.call(fmt.Sprint(len(params)), "batch.execute", params), want)
	}
	if len(order) != 0 {
		t.Errorf("ran %v", order)
	}
}

func TestEveryEntryOfABatchIsAuthorizedAndDeduplicated(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var ran atomic.Int64
		claims := &ledger{}
		p := &policy{action: "test:hello"}
		n := newNode(t, commands.RouterOptions{Authorizer: p, Claims: claims}, counter(commands.Act, &ran), define("hello", commands.Read, greet))
		params := `{"commands":[{"command":"test.count","params":{"text":"a"},"id":"own"},{"command":"test.hello"},{"command":"test.count"}]}`
		b := batchOf(t, n.call("1", "batch.execute", params))
		if shape(b) != "0:success 1:failed 2:success" || !strings.Contains(string(b.Results[1].Error), `"code":"2003"`) {
			t.Errorf("got %+v", b)
		}
		// The entry's own id makes it the same request outside of the batch.
		wantSaid(t, n.call("own", "test.count", `{"text":"a"}`), `{"text":"a1"}`)
		if ran.Load() != 2 || len(claims.claims) != 2 {
			t.Errorf("%d ran, %d claims", ran.Load(), len(claims.claims))
		}
		// After a crash the batch runs again, what had acted does not.
		after := newNode(t, commands.RouterOptions{Claims: claims}, counter(commands.Act, &ran), define("hello", commands.Read, greet))
		b = batchOf(t, after.call("1", "batch.execute", params))
		if shape(b) != "0:failed 1:success 2:failed" || !strings.Contains(string(b.Results[2].Error), `"code":"4012"`) || ran.Load() != 2 {
			t.Errorf("after a crash: %+v, %d ran", b, ran.Load())
		}
	})
}

func TestABatchEndsWithItsDeadline(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newNode(t, commands.RouterOptions{}, stubborn(5*time.Second))
		wantSaid(t, n.call("1", "batch.execute", `{"commands":[{"command":"test.stubborn"},{"command":"test.stubborn"}]}`, `"timeout":1000`), "4007")
	})
}
