package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/broker"
)

// A valueLine is one value of the journal in an archive. MQTT's names are
// UTF-8, but nothing here depends on it: keys are base64, like values.
type valueLine struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

// An entryLine is one entry of the journal in an archive.
type entryLine struct {
	Entry []byte `json:"entry"`
}

// backupAttempts bounds how often the journal is read anew because its
// beginning was trimmed meanwhile.
const backupAttempts = 5

// backupJournal copies the journal: the values as they are at one moment,
// then the entries up to a later one. It may be in use, by another process
// too. Its content is in memory meanwhile. The journals of the bridges of a cluster
// that all work are merged into one, with the retained messages of their clients:
// the form for a bridge that works alone.
func (s *Store) backupJournal(ctx context.Context, archive *archiveWriter) error {
	c, err := s.copyJournals(ctx)
	if err != nil {
		return err
	}
	if err := archive.begin(valuesSection); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(c.Values)) {
		archive.manifest.Values++
		if err := archive.journalLine(valueLine{[]byte(key), c.Values[key]}, len(key)+len(c.Values[key])); err != nil {
			return err
		}
	}
	if err := archive.begin(entriesSection); err != nil {
		return err
	}
	for _, entry := range c.Entries {
		archive.manifest.Entries++
		if err := archive.journalLine(entryLine{entry}, len(entry)); err != nil {
			return err
		}
	}
	return nil
}

// copyJournals is the content of the journals of all bridges.
func (s *Store) copyJournals(ctx context.Context) (c broker.JournalCopy, err error) {
	nodes, err := s.journalNodes(ctx)
	if err != nil {
		return c, err
	}
	if len(nodes) == 0 {
		return s.copyJournal(ctx, "")
	}
	earlier, err := s.copyEach(ctx, nodes)
	if err != nil {
		return c, err
	}
	last, err := s.copyEach(ctx, nodes)
	if err != nil {
		return c, err
	}
	if c, err = broker.MergeJournals(last, earlier); err != nil {
		return c, err
	}
	return c, s.copyRetained(ctx, c.Values)
}

// copyEach copies the journals of bridges, and the one that each active bridge
// takes over from the one before.
func (s *Store) copyEach(ctx context.Context, nodes []string) (all []broker.JournalCopy, err error) {
	alone, err := s.HasJournalOf(ctx, "")
	if err != nil {
		return nil, err
	}
	if alone {
		nodes = append([]string{""}, nodes...)
	}
	for _, node := range nodes {
		c, err := s.copyJournal(ctx, node)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// copyJournal copies the journal of a bridge, or for "" the one that each active
// bridge takes over from the one before.
func (s *Store) copyJournal(ctx context.Context, node string) (c broker.JournalCopy, err error) {
	j, err := s.OpenJournalOf(ctx, node) // so that the streams are there
	if err != nil {
		return c, err
	}
	values, entries, err := j.copy(ctx)
	if err != nil {
		return c, err
	}
	c.Values = values
	for _, r := range entries {
		if len(r.body) > 0 { // see recordLog.claim
			c.Entries = append(c.Entries, r.body)
		}
	}
	return c, nil
}

// journalNodes are the bridges that have a journal of their own, as in the names of
// its streams.
func (s *Store) journalNodes(ctx context.Context) (nodes []string, err error) {
	js, err := jetstream.New(s.flow.conn)
	if err != nil {
		return nil, err
	}
	any := newJournalNames(s.options.Prefix, anyNode)
	prefix := strings.TrimSuffix(any.values, anyNode)
	err = insist(ctx, func(ctx context.Context) error {
		nodes = nil
		names := js.StreamNames(ctx, jetstream.WithStreamListSubject(strings.TrimSuffix(any.valuesSubject, anyNode)+"*"))
		for name := range names.Name() {
			if node, ok := strings.CutPrefix(name, prefix); ok {
				nodes = append(nodes, node)
			}
		}
		return names.Err()
	})
	slices.Sort(nodes)
	return nodes, err
}

// anyNode is a placeholder for a bridge, in names of which only the rest is used.
const anyNode = "x"

// journalLine writes a line that takes somewhat more than size bytes.
func (a *archiveWriter) journalLine(line any, size int) error {
	if size > maxRecord {
		return fmt.Errorf("an entry or value of the journal has %d bytes, an archive takes up to %d", size, maxRecord)
	}
	return a.line(line)
}

// copy reads a journal that may be in use: the last values, and then the entries.
// It fails if some are lost.
func (j *Journal) copy(ctx context.Context) (values map[string][]byte, entries []record, err error) {
	before, err := j.extent.last(ctx)
	if err != nil {
		return nil, nil, err
	}
	changes, gotValues, err := j.values.copy(ctx)
	if err != nil {
		return nil, nil, err
	}
	if values, err = lastValues(j.values.stream, changes); err != nil {
		return nil, nil, err
	}
	entries, gotEntries, err := j.entries.copy(ctx)
	if err != nil {
		return nil, nil, err
	}
	return values, entries, j.checkExtent(ctx, before, gotValues, gotEntries)
}

// lastValues are the last values of the keys in a stream's records.
func lastValues(stream string, records []record) (map[string][]byte, error) {
	values := make(map[string][]byte)
	for _, r := range records {
		for at := 0; at < len(r.body); {
			c, err := changeAt(r.body, at)
			if err != nil {
				return nil, &integrityError{subject: stream, revision: r.first, err: err}
			}
			at = c.end
			if c.removed {
				delete(values, string(c.key))
			} else {
				values[string(c.key)] = c.value
			}
		}
	}
	return values, nil
}

// copy reads the records of a log that may be in use, and returns the sequences of
// their messages.
func (l *recordLog) copy(ctx context.Context) (records []record, got span, err error) {
	for range backupAttempts {
		records = nil
		reader := partReader{stream: l.stream}
		err = readStream(ctx, l.nc, l.stream, func(m message) error {
			r, ok, err := reader.add(m)
			if ok {
				records = append(records, r)
			}
			return err
		})
		got = span{reader.first, reader.at}
		if !errors.Is(err, errGap) {
			break
		}
	}
	return records, got, err
}

// A journalRestorer fills an empty journal from the lines of an archive.
type journalRestorer struct {
	journal *Journal
	values  []KeyedValue
	bytes   int
}

// forgetCluster deletes the MQTT sessions and retained messages of the bridges of a cluster that
// all work. Their streams are made anew when they work again.
func (s *Store) forgetCluster(ctx context.Context) error {
	nodes, err := s.journalNodes(ctx)
	if err != nil {
		return err
	}
	flow, state := []string{s.options.Prefix + retainedStream, s.options.Prefix + sessionsStream}, []string{}
	for _, node := range nodes {
		names := newJournalNames(s.options.Prefix, node)
		flow, state = append(flow, names.values, names.entries), append(state, names.extent)
	}
	return errors.Join(deleteStreams(ctx, s.flow, flow), deleteStreams(ctx, s.state, state))
}

// deleteStreams deletes those streams that are there.
func deleteStreams(ctx context.Context, l *connection, streams []string) error {
	js, err := jetstream.New(l.conn)
	if err != nil {
		return err
	}
	for _, stream := range streams {
		if err := js.DeleteStream(ctx, stream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("stream %s: %w", stream, err)
		}
	}
	return nil
}

// emptyJournal empties the journal and returns it for a restore.
func (s *Store) emptyJournal(ctx context.Context) (*Journal, error) {
	j, err := s.OpenJournal(ctx)
	if err != nil {
		return nil, err
	}
	if err := j.extent.forget(ctx); err != nil {
		return nil, err
	}
	for _, l := range []*recordLog{&j.values.recordLog, &j.entries} {
		if err := purge(ctx, l.nc, l.stream); err != nil {
			return nil, err
		}
	}
	err = j.Load(ctx, func(string, []byte) error { return nil }, func(uint64, []byte) error { return nil })
	return j, err
}

func (r *journalRestorer) value(ctx context.Context, line []byte) error {
	v, err := parseValueLine(line)
	if err != nil {
		return err
	}
	r.values = append(r.values, v)
	if r.bytes += changeSize(v); r.bytes < restoreBytes {
		return nil
	}
	return r.flush(ctx)
}

// flush writes the values gathered so far.
func (r *journalRestorer) flush(ctx context.Context) error {
	_, err := r.journal.Write(ctx, r.values, nil)
	r.values, r.bytes = nil, 0
	return err
}

func (r *journalRestorer) entry(ctx context.Context, line []byte) error {
	entry, err := parseEntryLine(line)
	if err != nil {
		return err
	}
	_, err = r.journal.Write(ctx, nil, entry)
	return err
}

func parseValueLine(line []byte) (KeyedValue, error) {
	var l valueLine
	if err := json.Unmarshal(line, &l); err != nil {
		return KeyedValue{}, err
	}
	if l.Value == nil {
		return KeyedValue{}, fmt.Errorf("key %q has no value", l.Key)
	}
	return KeyedValue{Key: string(l.Key), Value: l.Value}, nil
}

func parseEntryLine(line []byte) ([]byte, error) {
	var l entryLine
	if err := json.Unmarshal(line, &l); err != nil {
		return nil, err
	}
	if len(l.Entry) == 0 {
		return nil, errors.New("the entry is empty")
	}
	return l.Entry, nil
}

// journalMessages is the number of messages that the journals have.
func (s *Store) journalMessages(ctx context.Context) (sum uint64, err error) {
	if _, err := s.OpenJournal(ctx); err != nil { // so that the streams are there
		return 0, err
	}
	nodes, err := s.journalNodes(ctx)
	if err != nil {
		return 0, unavailable(err)
	}
	own := newJournalNames(s.options.Prefix, s.options.Node)
	streams := []string{own.values, own.entries}
	for _, node := range nodes {
		if of := newJournalNames(s.options.Prefix, node); of != own {
			streams = append(streams, of.values, of.entries)
		}
	}
	for _, stream := range streams {
		info, err := inspect(ctx, s.flow, stream)
		if err != nil {
			return 0, unavailable(err)
		}
		sum += info.State.Messages
	}
	return sum, nil
}
