package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

// A list is shown when it has changed and not when it was merely asked for.
func TestAWatchedListIsShownWhenItChanges(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var out, notes bytes.Buffer
		answers := []any{`{"n":1}`, `{"n":1}`, errors.New("connection lost"), `{"n":2}`, `{"n":2}`}
		asked := 0
		ctx, cancel := context.WithCancel(t.Context())
		w := listWatch{
			out: &out, notes: &notes, every: watchEvery, settles: watchSettles,
			ask: func(context.Context) (json.RawMessage, error) {
				if asked == len(answers) {
					cancel()
					return nil, ctx.Err()
				}
				asked++
				switch answer := answers[asked-1].(type) {
				case error:
					return nil, answer
				default:
					return json.RawMessage(answer.(string)), nil
				}
			},
			show: format(asJSON).writeOne,
		}
		if err := w.run(ctx); err != nil {
			t.Fatal(err)
		}
		if out.String() != "{\"n\":1}\n{\"n\":2}\n" || !strings.Contains(notes.String(), "connection lost; trying again") {
			t.Errorf("%q, %q", out.String(), notes.String())
		}
	})
}

// What somebody may not see, or that is used wrongly, is not asked for again.
func TestAWatchEndsWithAnErrorThatStays(t *testing.T) {
	for name, answers := range map[string][]error{
		"at once": {protocol.Errorf(protocol.TargetUnavailable, "first")},
		"later":   {nil, protocol.Errorf(protocol.PermissionDenied, "no")},
	} {
		bubble.Test(t, func(t *testing.T) {
			asked := 0
			w := listWatch{
				out: io.Discard, notes: io.Discard, every: watchEvery,
				ask: func(context.Context) (json.RawMessage, error) {
					asked++
					return json.RawMessage(`{}`), answers[asked-1]
				},
				show: format(asJSON).writeOne,
			}
			if err := w.run(t.Context()); err == nil || asked != len(answers) {
				t.Errorf("%s: %v after %d", name, err, asked)
			}
		})
	}
}

// Of several changes that come at once the list is shown once.
func TestChangesAreShownWhenTheyHaveSettled(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		changed := make(chan struct{}, 1)
		began, asked := time.Now(), []time.Duration{}
		ctx, cancel := context.WithCancel(t.Context())
		w := listWatch{
			out: io.Discard, notes: io.Discard, every: watchAnyway, settles: watchSettles, changed: changed,
			ask: func(context.Context) (json.RawMessage, error) {
				if asked = append(asked, time.Since(began)); len(asked) == 3 {
					cancel()
				}
				return json.RawMessage(`{}`), nil
			},
			show: format(asJSON).writeOne,
		}
		time.AfterFunc(time.Second, func() { changed <- struct{}{} })
		if err := w.run(ctx); err != nil {
			t.Fatal(err)
		}
		if want := []time.Duration{0, time.Second + watchSettles, time.Second + watchSettles + watchAnyway}; asked[1] != want[1] || asked[2] != want[2] {
			t.Errorf("asked after %v, want %v", asked, want)
		}
	})
}

// TestAListIsWatchedOverABridge reads a line for each state of a list, and ends it
// with Ctrl-C.
func TestAListIsWatchedOverABridge(t *testing.T) {
	bridge := startBinary(t, t.TempDir())
	watch := exec.Command(bridge.path, "agent", "list", "--watch", "-o", "json", "--data", bridge.data)
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = watch.Process.Kill() })
	lines := bufio.NewScanner(out)
	if !lines.Scan() || strings.Contains(lines.Text(), `"a1"`) {
		t.Fatalf("first %q, %v", lines.Text(), lines.Err())
	}
	bridge.aibridge(t, "call", "agent.register", "agent_id=a1", "type=end_agent")
	for lines.Scan() && !strings.Contains(lines.Text(), `"a1"`) { // the bridge's own agent may come and go
	}
	if !strings.Contains(lines.Text(), `"a1"`) {
		t.Fatalf("ended with %q, %v", lines.Text(), lines.Err())
	}
	if err := watch.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // to the end
	}
	if err := watch.Wait(); err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
}
