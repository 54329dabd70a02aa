package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
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
// too. Its content is in memory meanwhile.
func (s *Store) backupJournal(ctx context.Context, archive *archiveWriter) error {
	j, err := s.OpenJournal(ctx) // so that the streams are there
	if err != nil {
		return err
	}
	values, entries, err := j.copy(ctx)
	if err != nil {
		return err
	}
	if err := archive.begin(valuesSection); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		archive.manifest.Values++
		if err := archive.journalLine(valueLine{[]byte(key), values[key]}, len(key)+len(values[key])); err != nil {
			return err
		}
	}
	if err := archive.begin(entriesSection); err != nil {
		return err
	}
	for _, r := range entries {
		if len(r.body) == 0 {
			continue // see recordLog.claim
		}
		archive.manifest.Entries++
		if err := archive.journalLine(entryLine{r.body}, len(r.body)); err != nil {
			return err
		}
	}
	return nil
}

// journalLine writes a line that takes somewhat more than size bytes.
func (a *archiveWriter) journalLine(line any, size int) error {
	if size > maxRecord {
		return fmt.Errorf("an entry or value of the journal has %d bytes, an archive takes up to %d", size, maxRecord)
	}
	return a.line(line)
}

// copy reads a journal that may be in use: the values that count, and then the
// entries. It fails if it lacks what it had.
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

// lastValues are the values that count after the changes in a stream's records.
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

// copy reads the records of a log that may be in use, and says which messages
// they are.
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

// journalMessages is the number of messages that the journal has.
func (s *Store) journalMessages(ctx context.Context) (uint64, error) {
	j, err := s.OpenJournal(ctx)
	if err != nil {
		return 0, err
	}
	values, err := inspect(ctx, s.flow, j.values.stream)
	if err != nil {
		return 0, unavailable(err)
	}
	entries, err := inspect(ctx, s.flow, j.entries.stream)
	if err != nil {
		return 0, unavailable(err)
	}
	return values.State.Messages + entries.State.Messages, nil
}
