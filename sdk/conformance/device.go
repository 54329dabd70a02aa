package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// A startError means that the program could not be started at all.
type startError struct{ cause error }

func (e *startError) Error() string { return "the device cannot be started: " + e.cause.Error() }
func (e *startError) Unwrap() error { return e.cause }

// A device is a run of the program under test.
type device struct {
	process *exec.Cmd
	ended   chan struct{} // closed when it has ended
	err     error         // how; valid once it has ended
	tail    tail
}

func startDevice(o Options, env ...string) (*device, error) {
	d := &device{ended: make(chan struct{})}
	d.process = exec.Command(o.Command[0], o.Command[1:]...)
	d.process.Dir = o.Dir
	d.process.Env = append(append(os.Environ(), o.Env...), env...)
	output := io.Writer(&d.tail)
	if o.Output != nil {
		output = io.MultiWriter(&d.tail, o.Output)
	}
	d.process.Stdout, d.process.Stderr = output, output
	d.process.WaitDelay = time.Second // children of its own may hold the output
	if err := d.process.Start(); err != nil {
		return nil, &startError{err}
	}
	go func() {
		d.err = d.process.Wait()
		close(d.ended)
	}()
	return d, nil
}

// alive says that the device has ended, if it has.
func (d *device) alive() error {
	select {
	case <-d.ended:
		return fmt.Errorf("the program ended by itself (%v); its last words: %s", d.process.ProcessState, d.tail.String())
	default:
		return nil
	}
}

// kill ends it without a word, as a loss of power does.
func (d *device) kill() {
	_ = d.process.Process.Kill()
	<-d.ended
}

// leave asks it to end and waits.
func (d *device) leave(ctx context.Context, patience time.Duration) error {
	if err := terminate(d.process.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-d.ended:
		if d.err != nil {
			return fmt.Errorf("it ended with %w; its last words: %s", d.err, d.tail.String())
		}
		return nil
	case <-timer.C:
		return fmt.Errorf("it did not end within %s of being asked to", patience)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// tailSize is the number of bytes that a tail keeps.
const tailSize = 2048

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(len(t.text)-tailSize, 0):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
