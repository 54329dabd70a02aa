package recordstest

import (
	"context"
	"sync"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// A Process is one life of a program, until it is killed. Its zero value is not
// killed.
type Process struct {
	Dies  int    // the step at which it is killed, from 1; 0 for none
	At    string // the first step of this name kills it, too
	After bool   // it is killed after the step, not before it

	mu    sync.Mutex
	steps int // so far
	dead  bool
	died  string
}

// ErrKilled is the error of a dead process's deeds.
var ErrKilled = protocol.Errorf(protocol.StoreUnavailable, "the process is dead")

// Step is a moment at which the process may be killed. It reports whether the step
// is done, and whether the process is alive after it.
func (p *Process) Step(name string) (done, alive bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return false, false
	}
	if p.steps++; p.steps == p.Dies || p.At != "" && name == p.At {
		p.dead, p.died = true, name
		return p.After, false
	}
	return true, true
}

// Dead reports whether the process was killed, and at which step.
func (p *Process) Dead() (dead bool, at string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead, p.died
}

// A Mortal table is one as a process has it that may be killed: each of its writes
// is a step.
type Mortal[T any] struct {
	*Memory[T]
	Name    string
	Process *Process
}

var _ records.Table[int] = Mortal[int]{}

func (t Mortal[T]) write(what string, do func() (uint64, error)) (revision uint64, err error) {
	done, alive := t.Process.Step(what + " " + t.Name)
	if done {
		revision, err = do()
	}
	if !alive {
		return 0, ErrKilled
	}
	return revision, err
}

// Create implements [records.Table].
func (t Mortal[T]) Create(ctx context.Context, key string, v *T) (uint64, error) {
	return t.write("create", func() (uint64, error) { return t.Memory.Create(ctx, key, v) })
}

// Put implements [records.Table].
func (t Mortal[T]) Put(ctx context.Context, key string, v *T) (uint64, error) {
	return t.write("put", func() (uint64, error) { return t.Memory.Put(ctx, key, v) })
}

// Update implements [records.Table].
func (t Mortal[T]) Update(ctx context.Context, key string, v *T, expect uint64) (uint64, error) {
	return t.write("update", func() (uint64, error) { return t.Memory.Update(ctx, key, v, expect) })
}

// Delete implements [records.Table].
func (t Mortal[T]) Delete(ctx context.Context, key string, expect uint64) error {
	_, err := t.write("delete", func() (uint64, error) { return 0, t.Memory.Delete(ctx, key, expect) })
	return err
}
