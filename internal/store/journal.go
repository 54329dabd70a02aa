package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

// A Journal keeps the durable state of the MQTT server: values by key, of which the last
// counts (sessions, retained messages), and a log of entries in order (pending messages
// of sessions). It lives on the flow connection: an acknowledged entry survives a crash
// of the process, and a power cut if the flow server syncs.
//
// One process writes to a journal at a time; another writer is noticed and fails
// with 5001.
type Journal struct {
	store *Store

	mu      sync.Mutex
	values  valueLog
	entries recordLog
	extent  extentKeeper
	foreign bool // it is another bridge's, which has ended
	loaded  bool
}

// A KeyedValue is one change of a [Journal]; a nil Value removes the key.
type KeyedValue = broker.KeyedValue

// OpenJournal makes the journal's streams if they are missing and returns the
// journal, which is to be loaded before it is written.
func (s *Store) OpenJournal(ctx context.Context) (*Journal, error) {
	return s.openJournal(ctx, newJournalNames(s.options.Prefix, s.options.Node), s.makeStream)
}

// OpenJournalOf returns the journal of another bridge of the cluster, which has
// ended. Loading it fences off every process that still writes to it. When it is
// fenced off in turn, its writes fail, and the store goes on.
func (s *Store) OpenJournalOf(ctx context.Context, node string) (*Journal, error) {
	quiet := func(ctx context.Context, l *connection, config jetstream.StreamConfig) error { // the bridge can do without
		return makeStream(ctx, l.conn, config)
	}
	j, err := s.openJournal(ctx, newJournalNames(s.options.Prefix, node), quiet)
	if err != nil {
		return nil, err
	}
	j.foreign = true
	j.values.taken, j.entries.taken = errTaken, errTaken
	return j, nil
}

// HasJournalOf reports whether there is a journal of a bridge, or for "" the one
// that each active bridge takes over from the one before.
func (s *Store) HasJournalOf(ctx context.Context, node string) (bool, error) {
	info, err := inspect(ctx, s.flow, newJournalNames(s.options.Prefix, node).values)
	if isMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, unavailable(err)
	}
	return info.State.Messages > 0, nil
}

func errTaken(stream string) error {
	return protocol.Errorf(protocol.StoreUnavailable, "another bridge has taken stream %s", stream)
}

func (s *Store) openJournal(ctx context.Context, names journalNames, makeStream func(context.Context, *connection, jetstream.StreamConfig) error) (*Journal, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.LoadTimeout)
	defer cancel()
	extents := s.journalStream(names.extent, names.extentSubject, "how far the MQTT journal reaches, to notice losses")
	extents.MaxMsgs, extents.Discard, extents.DenyDelete = 1, jetstream.DiscardOld, false
	err := errors.Join(
		makeStream(ctx, s.state, extents),
		makeStream(ctx, s.flow, s.journalStream(names.values, names.valuesSubject, "MQTT sessions and retained messages")),
		makeStream(ctx, s.flow, s.journalStream(names.entries, names.entriesSubject, "what is owed to MQTT sessions")),
	)
	if err != nil {
		return nil, err
	}
	j := &Journal{
		store:   s,
		values:  newValueLog(newRecordLog(s, names.values, names.valuesSubject)),
		entries: newRecordLog(s, names.entries, names.entriesSubject),
	}
	j.extent = extentKeeper{store: s, stream: names.extent, subject: names.extentSubject, values: j.values.reach, entries: j.entries.reach}
	j.values.beforeTrim, j.entries.beforeTrim = j.extent.keep, j.extent.keep
	return j, nil
}

// journalNames are the names under which a journal is known to NATS.
type journalNames struct {
	values, valuesSubject   string
	entries, entriesSubject string
	extent, extentSubject   string
}

// newJournalNames are the names of the journal of a node, or for "" of the one that
// each active bridge takes over from the one before.
func newJournalNames(prefix, node string) journalNames {
	if node != "" {
		node = trailName(node)
		return journalNames{
			values:         prefix + "-mqtt-values-" + node,
			valuesSubject:  prefix + ".mqtt.node.values." + node,
			entries:        prefix + "-mqtt-log-" + node,
			entriesSubject: prefix + ".mqtt.node.log." + node,
			extent:         prefix + "-mqtt-extent-" + node,
			extentSubject:  prefix + ".mqtt.node.extent." + node,
		}
	}
	return journalNames{
		values:         prefix + "-mqtt-values",
		valuesSubject:  prefix + ".mqtt.values",
		entries:        prefix + "-mqtt-log",
		entriesSubject: prefix + ".mqtt.log",
		extent:         prefix + "-mqtt-extent",
		extentSubject:  prefix + ".mqtt.extent",
	}
}

// journalStream configures a stream of the journal. Nothing in it expires:
// entries not needed any more are trimmed.
func (s *Store) journalStream(name, subject, what string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        name,
		Description: "AI Bridge: " + what,
		Subjects:    []string{subject},
		Discard:     jetstream.DiscardNew,
		Storage:     jetstream.FileStorage,
		Replicas:    s.options.Replicas,
		DenyDelete:  true,
	}
}

// Load yields every value, in any order, then every entry, the oldest first.
// Keys may be kept; slices are valid until the function that got them returns.
// Load comes before the first Write. It has no time limit, but fails when it makes
// no progress for [Options.LoadTimeout], and when something stored is missing or
// cannot be read, unless losses are accepted.
func (j *Journal) Load(ctx context.Context, keyed func(key string, value []byte) error, entry func(seq uint64, entry []byte) error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.loaded = false
	if !j.foreign { // a bridge loads its own journal when it starts
		ctx = Patiently(ctx)
	}
	if j.store.options.Fence || j.foreign {
		if err := errors.Join(j.values.claim(ctx), j.entries.claim(ctx)); err != nil {
			return fmt.Errorf("store: take over the journal: %w", err)
		}
	}
	before, err := j.extent.last(ctx)
	if err != nil {
		return fmt.Errorf("store: load the journal: %w", err)
	}
	if err := j.values.load(ctx, keyed); err != nil {
		return fmt.Errorf("store: load the journal's values: %w", err)
	}
	err = j.entries.read(ctx, func(r record) error {
		if len(r.body) == 0 {
			return nil // see recordLog.claim
		}
		return entry(r.first, r.body)
	})
	if err != nil {
		return fmt.Errorf("store: load the journal's entries: %w", err)
	}
	if err := j.checkExtent(ctx, before, j.values.reach.span(), j.entries.reach.span()); err != nil {
		return fmt.Errorf("store: load the journal: %w", err)
	}
	if err := j.extent.begin(ctx); err != nil {
		return fmt.Errorf("store: load the journal: %w", err)
	}
	j.loaded = true
	return nil
}

// Write makes changes durable: the values, then the entry, if it is not empty,
// of which it returns the sequence. Either part is one record of any size, and so
// is stored whole or not at all; the entry only when the values are. After an error
// the same write may be repeated, and is not stored twice. Each message of a
// record, up to 1 MiB, takes [Options.WriteTimeout] at most.
func (j *Journal) Write(ctx context.Context, keyed []KeyedValue, entry []byte) (seq uint64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.loaded {
		return 0, errNotLoaded
	}
	if err := j.store.sure(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	defer func() { j.store.metrics.wrote("journal", began, err) }()
	if len(keyed) > 0 {
		if err := j.values.write(ctx, keyed); err != nil {
			return 0, err
		}
	}
	if len(entry) == 0 {
		return 0, nil
	}
	return j.entries.append(ctx, entry)
}

// Trim forgets the entries before seq.
func (j *Journal) Trim(ctx context.Context, seq uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.loaded {
		return errNotLoaded
	}
	return j.entries.trim(ctx, seq)
}

// Close ends the use of the journal, which another process may load then. Its
// content stays.
func (j *Journal) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.loaded {
		j.loaded = false
		j.extent.end()
	}
}

var errNotLoaded = errors.New("store: the journal is not loaded")
