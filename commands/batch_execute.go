package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/aibridge/aibridge/protocol"
)

// batch.execute is a Write, though its entries may act: each of those is
// deduplicated and claimed on its own. A batch repeated after a crash runs
// again, and its entries that had acted answer with 4012.
var batchExecute = Spec{
	Name:    "batch.execute",
	Summary: "Run several commands, one after the other or side by side.",
	Effect:  Write,
	Traced:  true,
	Action:  "batch:execute",
	Errors:  []protocol.Code{protocol.BatchInvalid},
	Example: `{"commands":[{"command":"skill.discover","params":{"capability":"temperature"}},{"command":"bridge.describe"}],"mode":"parallel"}`,
}

// parallelEntries is the number of entries of one batch that run at once.
const parallelEntries = 16

// BatchParams are the parameters of batch.execute.
type BatchParams struct {
	Commands    []BatchEntry `json:"commands" len:"1-100" doc:"command to run; batches cannot be nested"`
	Mode        string       `json:"mode,omitempty" enum:"sequential,parallel" default:"sequential" doc:"one after the other, or side by side"`
	StopOnError bool         `json:"stop_on_error,omitempty" doc:"start no further command once one has failed"`
}

// A BatchEntry is one command of a batch.
type BatchEntry struct {
	Command string          `json:"command" len:"1-128" doc:"name of the command"`
	Params  json.RawMessage `json:"params,omitempty" type:"object" doc:"its parameters"`
	ID      string          `json:"id,omitempty" len:"1-64" doc:"request id of its own, to repeat it alone"`
}

// Validate refuses batches in batches.
func (p BatchParams) Validate() error {
	for i, e := range p.Commands {
		if e.Command == batchExecute.Name {
			return protocol.Errorf(protocol.BatchInvalid, "batches cannot be nested").
				With("param_name", fmt.Sprintf("commands[%d].command", i)).With("reason", "batches cannot be nested")
		}
	}
	return nil
}

// BatchResult is the result of batch.execute.
type BatchResult struct {
	Total        int          `json:"total" doc:"number of commands in the batch"`
	SuccessCount int          `json:"success_count" doc:"number of commands that succeeded"`
	FailureCount int          `json:"failure_count" doc:"number of commands that failed; skipped ones are in neither count"`
	Results      []BatchEnded `json:"results" doc:"in the order of the commands"`
}

// A BatchEnded is the end of one entry.
type BatchEnded struct {
	Index   int             `json:"index" doc:"place of the command in the batch, from 0"`
	Command string          `json:"command" doc:"name of the command, as in the request"`
	Status  string          `json:"status" doc:"success, failed, or skipped after the failure of another"`
	Result  json.RawMessage `json:"result" doc:"result of the command; after a failure the part that was done, {} for none and for a skipped command"`
	Error   json.RawMessage `json:"error" doc:"null, or code, message and details"`
}

const statusSkipped = "skipped"

func executeBatch(ctx context.Context, call *Call, p BatchParams) (BatchResult, error) {
	b := &batch{call: call, entries: p.Commands, stopOnError: p.StopOnError, results: make([]BatchEnded, len(p.Commands))}
	workers := 1
	if p.Mode == "parallel" {
		workers = min(parallelEntries, len(p.Commands))
	}
	err := call.Park(ctx, func(ctx context.Context) error {
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() { b.work(ctx) })
		}
		wg.Wait()
		return ctx.Err()
	})
	if err != nil {
		return BatchResult{}, err
	}
	return b.summary(), nil
}

// A batch is one batch being executed.
type batch struct {
	call        *Call
	entries     []BatchEntry
	stopOnError bool
	next        atomic.Int64
	failed      atomic.Bool
	results     []BatchEnded
}

// work runs one entry after the other, until none is left to start.
func (b *batch) work(ctx context.Context) {
	for {
		i := int(b.next.Add(1)) - 1
		if i >= len(b.entries) {
			return
		}
		b.results[i] = b.run(ctx, i)
	}
}

func (b *batch) run(ctx context.Context, i int) BatchEnded {
	entry := b.entries[i]
	ended := BatchEnded{Index: i, Command: entry.Command, Status: statusSkipped, Result: json.RawMessage("{}")}
	if b.stopOnError && b.failed.Load() {
		return ended
	}
	id := entry.ID
	if id == "" {
		id = fmt.Sprintf("%s#%d", b.call.RequestID, i) // the same for a repeat of the batch
	}
	result, err := b.call.Dispatch(ctx, entry.Command, entry.Params, id)
	if len(result) > 0 {
		ended.Result = result
	}
	ended.Status = protocol.StatusSuccess
	if err != nil {
		b.failed.Store(true)
		ended.Status, ended.Error = protocol.StatusFailed, protocol.AsError(err).Append(nil)
	}
	return ended
}

func (b *batch) summary() BatchResult {
	r := BatchResult{Total: len(b.results), Results: b.results}
	for _, ended := range b.results {
		switch ended.Status {
		case protocol.StatusSuccess:
			r.SuccessCount++
		case protocol.StatusFailed:
			r.FailureCount++
		}
	}
	return r
}
