package sessions

// writes is the queue of records that this bridge writes to the log. One entry is on
// its way at a time; records queued meanwhile go with the next.
type writes struct {
	records []Record
	then    []func(counts bool)

	tag    uint64 // of the entry on its way, or of the last one
	entry  Entry
	flying []func(counts bool)
	at     uint64 // where the log has it; 0 while that is not known
}

// mostRecords is the greatest number of records in an entry.
const mostRecords = 2048

// write queues a record. then is called with whether it took effect.
func (m *machine) write(r Record, then func(counts bool)) {
	m.writes.records = append(m.writes.records, r)
	m.writes.then = append(m.writes.then, then)
}

// cut is the next entry to be written, if none is on its way.
func (w *writes) cut(by Node) (*Entry, bool) {
	if len(w.flying) > 0 || len(w.records) == 0 {
		return nil, false
	}
	n := min(len(w.records), mostRecords)
	w.tag++
	w.entry, w.at = Entry{Writer: by, Tag: w.tag, Records: w.records[:n:n]}, 0
	w.flying = w.then[:n:n]
	w.records, w.then = w.records[n:], w.then[n:]
	return &w.entry, true
}

// outcome reports to the writers of an entry which of its records took effect.
func (w *writes) outcome(tag uint64, counted []bool) {
	if tag != w.tag || len(w.flying) == 0 {
		return // it is known already
	}
	flying := w.flying
	w.flying = nil
	for i, then := range flying {
		then(counted[i])
	}
}

// stored notes where the log has an entry.
func (w *writes) stored(tag, position uint64) {
	if tag == w.tag {
		w.at = position
	}
}

// settle derives from the table which records took effect, for an entry that had been
// trimmed from the log before it was read.
func (w *writes) settle(t *Table, bridge string, position uint64) {
	if len(w.flying) == 0 || w.at == 0 || w.at > position {
		return
	}
	counted := make([]bool, len(w.entry.Records))
	for i, r := range w.entry.Records {
		switch r.Kind {
		case Begin:
			counted[i] = t.Process(bridge) == w.entry.Writer
		case Claim:
			counted[i] = t.Owner(r.Key) == Owner{bridge, r.To}
		case Release:
			counted[i] = t.Owner(r.Key) != r.From
		}
	}
	w.outcome(w.tag, counted)
}
