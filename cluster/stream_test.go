package cluster

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A memory is a stream in memory, which several nodes use.
type memory struct {
	mu       sync.Mutex
	messages []message
	last     map[string]message
	more     chan struct{} // closed when there is another message
}

type message struct {
	id       string
	revision uint64
	data     []byte
}

func newMemory() *memory { return &memory{last: make(map[string]message), more: make(chan struct{})} }

// A line is a node's way to the stream.
type line struct {
	*memory
	mu      sync.Mutex
	cut     bool          // nothing passes
	mute    bool          // what is written is stored, and not confirmed
	offline bool          // there is no connection either
	slow    time.Duration // until a write that is stored is confirmed
	changed chan struct{} // closed when one of these has changed
}

func (m *memory) line() *line { return &line{memory: m, changed: make(chan struct{})} }

var errAway = errors.New("nobody answers")

func (l *line) set(edit func(l *line)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	edit(l)
	close(l.changed)
	l.changed = make(chan struct{})
}

// passesAgain waits until something passes.
func (l *line) passesAgain(ctx context.Context) error {
	for {
		l.mu.Lock()
		cut, changed := l.cut, l.changed
		l.mu.Unlock()
		if !cut {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errAway
		}
	}
}

// passes waits in vain if nothing passes.
func (l *line) passes(ctx context.Context) error {
	l.mu.Lock()
	cut := l.cut
	l.mu.Unlock()
	if !cut {
		return nil
	}
	<-ctx.Done()
	return errAway
}

func (l *line) Write(ctx context.Context, id string, record []byte, after uint64, _ time.Duration) (uint64, error) {
	if err := l.passes(ctx); err != nil {
		return 0, err
	}
	revision, ok := l.add(id, record, after)
	l.mu.Lock()
	mute, slow := l.mute, l.slow
	l.mu.Unlock()
	time.Sleep(slow)
	switch {
	case mute:
		<-ctx.Done()
		return 0, errAway
	case !ok:
		return 0, ErrTaken
	}
	return revision, nil
}

func (l *line) Prove(ctx context.Context, _ string) (uint64, error) {
	if err := l.passes(ctx); err != nil {
		return 0, err
	}
	revision, _ := l.add("", nil, 0)
	return revision, nil
}

func (l *line) Read(ctx context.Context, id string) ([]byte, uint64, error) {
	if err := l.passes(ctx); err != nil {
		return nil, 0, err
	}
	l.memory.mu.Lock()
	defer l.memory.mu.Unlock()
	return l.last[id].data, l.last[id].revision, nil
}

func (l *line) Follow(ctx context.Context, current func(), each func(string, uint64, []byte)) error {
	for at := 0; ; {
		if err := l.passesAgain(ctx); err != nil {
			return err
		}
		l.memory.mu.Lock()
		messages, more := l.messages, l.more
		l.memory.mu.Unlock()
		first := at == 0
		for ; at < len(messages); at++ {
			each(messages[at].id, messages[at].revision, messages[at].data)
		}
		if first {
			current()
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *line) Connected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.offline
}

// record is a node as the stream has it.
func (m *memory) record(id string) (revision uint64, r Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.last[id]
	e, _ := decodeEntry(id, last.revision, last.data)
	return last.revision, e.record
}

func (m *memory) add(id string, data []byte, after uint64) (uint64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id != "" && m.last[id].revision != after {
		return 0, false
	}
	next := message{id, uint64(len(m.messages) + 1), data}
	m.messages, m.last[id] = append(m.messages, next), next
	close(m.more)
	m.more = make(chan struct{})
	return next.revision, true
}
