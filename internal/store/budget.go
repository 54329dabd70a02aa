package store

import "github.com/aibridge/aibridge/protocol"

// A Budget bounds how many records parties keep. Its methods are called from
// several goroutines and must be fast.
type Budget interface {
	// Reserve counts one more record of a party, or refuses it: 3004.
	Reserve(owner protocol.Party) *protocol.Error
	// Count counts more records of a party, or fewer, without a check of its limit.
	Count(owner protocol.Party, records int)
}

// Owned is a record that uses up a party's budget. A party without an id is that of
// a space: the record uses only the space's budget.
type Owned interface{ KeptFor() protocol.Party }

// ownerOf is the party whose budget a record uses, the zero party if there is no
// record or it is not [Owned].
func ownerOf[T any](record *T) (owner protocol.Party) {
	if owned, ok := any(record).(Owned); ok && record != nil {
		owner = owned.KeptFor()
	}
	return owner
}

// reserve takes room for the key that an op would add. Settle gives it back when the op
// has come to its end: by then a stored key has been counted.
func (s *Store) reserve(op *Op) (settle func(), err error) {
	budget := s.options.Budget
	if budget == nil || op.owner == (protocol.Party{}) || op.kind == opUpdate || op.kind == opDelete || op.revision() != 0 {
		return func() {}, nil
	}
	if err := budget.Reserve(op.owner); err != nil {
		return nil, err
	}
	return func() { budget.Count(op.owner, -1) }, nil
}

// reserveAll is reserve for several ops.
func (s *Store) reserveAll(ops []Op) (settle func(), err error) {
	var settled []func()
	settle = func() {
		for _, f := range settled {
			f()
		}
	}
	for i := range ops {
		one, err := s.reserve(&ops[i])
		if err != nil {
			settle()
			return nil, err
		}
		settled = append(settled, one)
	}
	return settle, nil
}

// count reports a change of the view to the budget.
func (s *Store) count(old, new protocol.Party) {
	budget := s.options.Budget
	if budget == nil || old == new {
		return
	}
	if old != (protocol.Party{}) {
		budget.Count(old, -1)
	}
	if new != (protocol.Party{}) {
		budget.Count(new, 1)
	}
}
