package approval

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/aibridge/aibridge/internal/records"
)

// A Sealer encrypts records, each bound to its purpose.
type Sealer interface {
	Seal(plain []byte, purpose string) ([]byte, error)
	Open(sealed []byte, purpose string) ([]byte, error)
}

// Sealed returns a table of approvals that seals the arguments of calls, which may hold
// parts of conversations, and their differences from earlier calls. Callers put and get
// plain approvals. Arguments that cannot be opened any more are null.
func Sealed(table records.Table[Record], sealer Sealer) records.Table[Record] {
	return sealedTable{table, sealer}
}

type sealedTable struct {
	records.Table[Record]
	sealer Sealer
}

// Create implements [records.Table].
func (s sealedTable) Create(ctx context.Context, id string, r *Record) (revision uint64, err error) {
	if r, err = s.closed(id, r); err != nil {
		return 0, err
	}
	return s.Table.Create(ctx, id, r)
}

// Put implements [records.Table].
func (s sealedTable) Put(ctx context.Context, id string, r *Record) (revision uint64, err error) {
	if r, err = s.closed(id, r); err != nil {
		return 0, err
	}
	return s.Table.Put(ctx, id, r)
}

// Update implements [records.Table].
func (s sealedTable) Update(ctx context.Context, id string, r *Record, expect uint64) (revision uint64, err error) {
	if r, err = s.closed(id, r); err != nil {
		return 0, err
	}
	return s.Table.Update(ctx, id, r, expect)
}

// Get implements [records.Table].
func (s sealedTable) Get(id string) (r *Record, revision uint64, ok bool) {
	if r, revision, ok = s.Table.Get(id); ok {
		r = s.opened(id, r)
	}
	return r, revision, ok
}

// All implements [records.Table].
func (s sealedTable) All() iter.Seq2[string, *Record] {
	return func(yield func(string, *Record) bool) {
		for id, r := range s.Table.All() {
			if !yield(id, s.opened(id, r)) {
				return
			}
		}
	}
}

// closed is the stored form of an approval, which followers of the table get.
func (s sealedTable) closed(id string, r *Record) (*Record, error) {
	sealed, err := s.sealer.Seal(r.Args, "approval/"+id)
	if err != nil {
		return nil, err
	}
	shut := *r
	shut.Args, shut.SealedArgs = nil, sealed
	if len(r.Changes) == 0 {
		return &shut, nil
	}
	changes, err := json.Marshal(r.Changes)
	if err != nil {
		return nil, err
	}
	if shut.SealedChanges, err = s.sealer.Seal(changes, changesOf(id)); err != nil {
		return nil, err
	}
	shut.Changes = nil
	return &shut, nil
}

func changesOf(id string) string { return "approval/" + id + "/changes" }

// opened is the plain form of an approval. Approvals of earlier versions are stored
// plain.
func (s sealedTable) opened(id string, r *Record) *Record {
	if r.SealedArgs == nil {
		return r
	}
	open := *r
	open.SealedArgs = nil
	plain, err := s.sealer.Open(r.SealedArgs, "approval/"+id)
	if err != nil || !json.Valid(plain) {
		plain = json.RawMessage("null")
	}
	open.Args = plain
	if r.SealedChanges != nil {
		open.SealedChanges = nil
		if plain, err = s.sealer.Open(r.SealedChanges, changesOf(id)); err != nil || json.Unmarshal(plain, &open.Changes) != nil {
			open.Changes = []string{"how the call differs from the earlier one cannot be read any more"}
		}
	}
	return &open
}
