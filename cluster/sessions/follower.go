package sessions

import "github.com/aibridge/aibridge/internal/fields"

// partEntries are the entries that a part of the table has.
const partEntries = 8 << 10

// A follower builds the table from the log. A trimmed log begins with the parts of a
// table, among entries later than it.
type follower struct {
	table    *Table
	position uint64 // up to where the log was read
	behind   bool   // the table is not known yet
	early    []held // messages received meanwhile
	parts    []part // of the table, as far as received
}

type held struct {
	position uint64
	entry    Entry
}

// take handles a message of the log. After the first message of a trimmed log, and
// after a gap, the table is built anew from its parts. apply is called for each entry
// to be applied to the table.
func (f *follower) take(position uint64, data []byte, apply func(*Entry)) error {
	if position <= f.position {
		return nil
	}
	if position != f.position+1 {
		*f = follower{table: f.table, behind: true}
	}
	f.position = position
	r := reader{fields.Of(data)}
	if r.Byte() != logVersion {
		return errMessage
	}
	switch r.Byte() {
	case logEntry:
		e, err := r.entry()
		if err != nil {
			return err
		}
		if f.behind {
			f.early = append(f.early, held{position, e})
			return nil
		}
		apply(&e)
		return nil
	case logState:
		if !f.behind {
			return nil
		}
		p, err := r.part()
		if err != nil {
			return err
		}
		f.stated(p, apply)
		return nil
	}
	return errMessage
}

// stated adds a part of the table, which is complete with the last one.
func (f *follower) stated(p part, apply func(*Entry)) {
	if p.number == 0 {
		f.parts = f.parts[:0]
	} else if len(f.parts) == 0 || f.parts[0].writer != p.writer || f.parts[0].position != p.position || int(p.number) != len(f.parts) {
		return // of another table
	}
	if f.parts = append(f.parts, p); !p.last {
		return
	}
	f.table.restore(f.parts)
	early := f.early
	f.behind, f.early, f.parts = false, nil, nil
	for i := range early {
		if early[i].position > p.position {
			apply(&early[i].entry)
		}
	}
}

// restore replaces the table by the content of its parts.
func (t *Table) restore(parts []part) {
	*t = *NewTable()
	for _, b := range parts[0].bridges {
		t.bridges = append(t.bridges, b)
		t.index[b.id] = uint32(len(t.bridges))
	}
	for i := range parts {
		for _, s := range parts[i].entries {
			if s.bridge > 0 && int(s.bridge) <= len(t.bridges) {
				t.owners[s.key] = s.owned
			}
		}
	}
}

// split is the table in parts.
func (t *Table) split(writer Node, position uint64) (parts []part) {
	p := part{writer: writer, position: position, bridges: append([]bridge(nil), t.bridges...)}
	for k, o := range t.owners {
		if len(p.entries) == partEntries {
			parts = append(parts, p)
			p = part{writer: writer, position: position, number: uint32(len(parts))}
		}
		p.entries = append(p.entries, stated{k, o})
	}
	p.last = true
	return append(parts, p)
}
