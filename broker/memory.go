package broker

import (
	"context"
	"slices"
	"sync"
)

// A MemoryJournal keeps everything in memory: for tests, and for brokers that
// are restarted within one process.
type MemoryJournal struct {
	mu      sync.Mutex
	keyed   map[string][]byte
	entries []memoryEntry
	last    uint64
}

type memoryEntry struct {
	seq  uint64
	data []byte
}

// Load implements Journal.
func (j *MemoryJournal) Load(_ context.Context, keyed func(string, []byte) error, entry func(uint64, []byte) error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for k, v := range j.keyed {
		if err := keyed(k, v); err != nil {
			return err
		}
	}
	for _, e := range j.entries {
		if err := entry(e.seq, e.data); err != nil {
			return err
		}
	}
	return nil
}

// Write implements Journal.
func (j *MemoryJournal) Write(_ context.Context, keyed []KeyedValue, entry []byte) (uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.keyed == nil {
		j.keyed = make(map[string][]byte)
	}
	for _, kv := range keyed {
		if kv.Value == nil {
			delete(j.keyed, kv.Key)
		} else {
			j.keyed[kv.Key] = slices.Clone(kv.Value)
		}
	}
	if len(entry) > 0 {
		j.last++
		j.entries = append(j.entries, memoryEntry{j.last, slices.Clone(entry)})
	}
	return j.last, nil
}

// Trim implements Journal.
func (j *MemoryJournal) Trim(_ context.Context, seq uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = slices.DeleteFunc(j.entries, func(e memoryEntry) bool { return e.seq < seq })
	return nil
}

// Copy returns a journal with the same content: what a process that is killed
// now would find.
func (j *MemoryJournal) Copy() *MemoryJournal {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := &MemoryJournal{keyed: make(map[string][]byte, len(j.keyed)), entries: slices.Clone(j.entries), last: j.last}
	for k, v := range j.keyed {
		c.keyed[k] = v
	}
	return c
}
