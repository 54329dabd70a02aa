package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

// The pauses between two requests for a watched list: it is requested after events
// of changes, and now and then; more often without events.
const (
	watchSettles = 200 * time.Millisecond // several changes come at once
	watchEvery   = 2 * time.Second
	watchAnyway  = 10 * time.Second
)

// addWatch adds the flag --watch to a command that lists.
func addWatch(cmd *cobra.Command, watch *bool) {
	cmd.Flags().BoolVar(watch, "watch", false, "show the list again whenever it changes, until Ctrl-C; with -o json a line for each state of it")
}

// A listWatch shows a list again whenever it changes.
type listWatch struct {
	out     io.Writer
	notes   io.Writer
	clear   bool // out is a terminal, of which the list takes the whole
	ask     func(context.Context) (json.RawMessage, error)
	show    func(io.Writer, json.RawMessage) error // one state of the list
	changed <-chan struct{}                        // something may have changed; nil without events
	every   time.Duration
	settles time.Duration
}

// watchList shows a list whenever it changes. Families of events are those of
// topics: agent, skill and so on.
func watchList(cmd *cobra.Command, c *client.Client, f format, family string, table func(io.Writer, json.RawMessage) error, ask func(context.Context) (json.RawMessage, error)) error {
	ctx := cmd.Context()
	w := listWatch{
		out: output(cmd), notes: cmd.ErrOrStderr(), clear: terminal(cmd.OutOrStdout()) && !f.whole(), ask: ask,
		show: func(out io.Writer, result json.RawMessage) error {
			if f.whole() {
				return f.writeOne(out, result)
			}
			return table(out, result)
		},
		every: watchEvery, settles: watchSettles,
	}
	changed := make(chan struct{}, 1)
	_, err := c.Subscribe(ctx, c.Topics().Event(family), func(context.Context, client.Message) {
		select {
		case changed <- struct{}{}:
		default: // it will be looked at anyhow
		}
	})
	if err == nil && told[family] {
		w.changed, w.every = changed, watchAnyway
	}
	return w.run(ctx)
}

// told are the families with an event for every change.
var told = map[string]bool{"agent": true, "skill": true, "resource": true, "approval": true}

// run shows the list until ctx ends.
func (w *listWatch) run(ctx context.Context) error {
	var before json.RawMessage
	for first := true; ; first = false {
		result, err := w.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was ended
		case err != nil && (first || !passes(err)):
			return err
		case err != nil:
			fmt.Fprintln(w.notes, "aibridge:", printable(err.Error())+"; trying again")
		case first || !bytes.Equal(result, before):
			before = bytes.Clone(result)
			if err := w.draw(result, first); err != nil {
				return err
			}
		}
		if !w.wait(ctx) {
			return nil
		}
	}
}

// passes reports whether an error may be gone when the bridge is asked again.
func passes(err error) bool {
	var coded *protocol.Error
	return !errors.As(err, &coded) || coded.Code.Retry() != protocol.RetryNever
}

// wait waits until the list may have changed. It reports false when ctx ends.
func (w *listWatch) wait(ctx context.Context) bool {
	timer := time.NewTimer(w.every)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case <-w.changed:
	}
	settled := time.NewTimer(w.settles)
	defer settled.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-settled.C:
		return true
	}
}

// draw shows one state of the list: in place of the one before, or below it.
func (w *listWatch) draw(result json.RawMessage, first bool) error {
	var page bytes.Buffer
	var to io.Writer = &page
	if inkOf(w.out) {
		to = painted{&page}
	}
	if err := w.show(to, result); err != nil {
		return err
	}
	switch {
	case w.clear:
		_, err := fmt.Fprintf(w.out, "\x1b[H%s\x1b[J", bytes.ReplaceAll(page.Bytes(), []byte("\n"), []byte("\x1b[K\n")))
		return err
	case !first && bytes.Count(page.Bytes(), []byte("\n")) > 1:
		if _, err := fmt.Fprintln(w.out); err != nil {
			return err
		}
	}
	_, err := page.WriteTo(w.out)
	return err
}
