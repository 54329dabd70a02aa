package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Bounds in time: to make a stock, to end a bridge, and until its memory has gone back to
// the system after a start.
const (
	stockTime = 2 * time.Minute
	endTime   = 30 * time.Second
	calmTime  = time.Second
)

// measureStarts measures how long a bridge takes to start with each stock until it is
// ready, and the memory that it has then. The stocks are made by clients of a bridge,
// which ends as by an operator before it is started again.
func (o GoalsOptions) measureStarts(ctx context.Context) (report Report, err error) {
	report.Machine = machine()
	var empty int64 // bytes of its heap
	for _, s := range stocks {
		results, err := o.measureStarting(ctx, s)
		for i := range results {
			r := &results[i]
			switch {
			case s.many == 0:
				empty = r.Heap
			case s.bytes > 0 && r.Heap > 0:
				r.Beside = (r.Heap-empty)/int64(s.many) - int64(s.bytes)
			}
			r.Round = i + 1
			o.progress(fmt.Sprintf("round %d/%d  %-40s ready after %s with %s MB  %s", r.Round, o.Rounds, s.name, short(r.Start), megabytes(r.Memory), r.faults()))
		}
		report.Results = append(report.Results, results...)
		if err != nil {
			return report, err
		}
	}
	return report, nil
}

// measureStarting makes a stock and starts a bridge with it for each round. What goes
// wrong with the bridge is in the results.
func (o GoalsOptions) measureStarting(ctx context.Context, s stock) (results []Result, err error) {
	b, err := newProcess()
	if err != nil {
		return nil, err
	}
	defer func() { b.stop() }()
	fail := func(err error) ([]Result, error) {
		r := Result{Scenario: s.name, Base: s.name, Peer: bridgeName, Err: err.Error()}
		return append(results, r), ctx.Err()
	}
	if err := o.startAt(ctx, b); err != nil {
		return fail(err)
	}
	making, cancel := context.WithTimeout(ctx, stockTime)
	defer cancel()
	if err := s.make(making, b); err != nil {
		return fail(fmt.Errorf("making it: %w", err))
	}
	for range o.Rounds {
		if b, err = b.again(ctx); err != nil {
			return fail(err)
		}
		if err := o.startAt(ctx, b); err != nil {
			return fail(err)
		}
		r := Result{Scenario: s.name, Base: s.name, Peer: bridgeName, Start: time.Since(b.begun)}
		select {
		case <-time.After(calmTime):
		case <-ctx.Done():
			return fail(ctx.Err())
		}
		r.Memory = memoryOf(b.pid)
		if r.Heap, err = liveHeap(ctx, b); err == nil {
			err = s.check(ctx, b)
		}
		if err != nil {
			r.Err = err.Error()
		}
		results = append(results, r)
	}
	return results, nil
}

// startAt starts a bridge with what is in the folder of the process, and waits until it
// says that it is ready.
func (o GoalsOptions) startAt(ctx context.Context, b *process) (err error) {
	if b.address, err = freeAddress(); err != nil {
		return err
	}
	web, err := freeAddress()
	if err != nil {
		return err
	}
	argv, err := bridgePeer(bridgeName, o.Bridge, "--http", web.String()).Command(b.address.String(), b.dir)
	if err != nil {
		return err
	}
	b.begun = time.Now()
	if err := b.start(argv, false); err != nil {
		return err
	}
	err = b.await(ctx, func() error {
		answer, err := get(ctx, web, "/readyz")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("it is not ready: %s", answer.Status)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w; it said: %s", err, b.output)
	}
	return nil
}

// liveHeap is the part of a bridge's heap that the last collection has found in use, by
// the metrics of the bridge: the heap may grow beyond it by gogc percent until the next.
func liveHeap(ctx context.Context, b *process) (int64, error) {
	web, err := webAddress(b.dir)
	if err != nil {
		return 0, err
	}
	answer, err := get(ctx, web, "/metrics")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	var next, gogc float64
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		number, _ := strconv.ParseFloat(value, 64) // 0 of other lines
		switch name {
		case "go_memstats_next_gc_bytes":
			next = number
		case "go_gc_gogc_percent":
			gogc = number
		}
	}
	if next == 0 || gogc == 0 {
		return 0, errors.New("the metrics do not tell of the heap")
	}
	return int64(next * 100 / (100 + gogc)), lines.Err()
}

// inquirer asks a bridge that may hang.
var inquirer = http.Client{Timeout: 10 * time.Second}

func get(ctx context.Context, web netip.AddrPort, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+web.String()+path, nil)
	if err != nil {
		return nil, err
	}
	return inquirer.Do(request)
}

// again ends a process as an operator does, and returns one that is not started, in the
// same folder.
func (b *process) again(ctx context.Context) (*process, error) {
	if err := syscall.Kill(b.pid, syscall.SIGTERM); err != nil {
		return b, err
	}
	select {
	case <-b.exited:
		return &process{output: &tail{}, dir: b.dir, exited: make(chan struct{})}, nil
	case <-ctx.Done(): // whoever waits does not want to any more
		return b, ctx.Err()
	case <-time.After(endTime):
		return b, fmt.Errorf("it has not ended within %s", endTime)
	}
}
