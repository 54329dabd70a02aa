package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// tallyEvery is the time by which the tally may be behind.
const tallyEvery = time.Second

// A tally is the number of keys of each table at a revision of the registry. It is kept
// apart from the registry, on the flow server.
//
// NATS repairs a damaged file by dropping everything behind the damage, with little
// notice. Since every change of a key takes a revision, a registry cannot lack more
// of the keys it had than revisions have passed. If it does, some are lost.
type tally struct {
	Version  int            `json:"v"`
	Revision uint64         `json:"revision"`
	Keys     map[string]int `json:"keys"` // by table
}

const tallySchema = 1

// keepTally stores the tally as the view moves on, until the store is closed.
func (s *Store) keepTally() {
	tick := time.NewTicker(tallyEvery)
	defer tick.Stop()
	var stored uint64
	update := func() {
		t := s.view.tally()
		if t == nil || t.Revision == stored {
			return
		}
		if err := s.storeTally(t); err != nil {
			s.log.Debug("the tally could not be stored", "err", err)
			return
		}
		stored = t.Revision
	}
	for {
		select {
		case <-tick.C:
			update()
		case <-s.run.Done():
			update()
			return
		}
	}
}

func (s *Store) storeTally(t *tally) error {
	data, err := json.Marshal(t)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.options.WriteTimeout)
	defer cancel()
	_, err = s.store(ctx, s.flow, &nats.Msg{Subject: s.names.tallySubject, Data: data})
	return err
}

// lastTally is the tally stored last, nil if there is none.
func (s *Store) lastTally(ctx context.Context) (*tally, error) {
	m, err := lastMessage(ctx, s.flow, s.names.tally, s.names.tallySubject)
	if m == nil || err != nil {
		return nil, err
	}
	var t tally
	if err := json.Unmarshal(m.Data, &t); err != nil {
		return nil, &integrityError{subject: s.names.tally, revision: m.Sequence, err: err}
	}
	if t.Version > tallySchema {
		return nil, &integrityError{subject: s.names.tally, revision: m.Sequence, err: fmt.Errorf("written by a newer bridge: version %d", t.Version)}
	}
	return &t, nil
}

// missing is the number of keys that must be lost of a registry that is at revision
// last, given how many of those in the tally were not changed since.
func (t *tally) missing(last uint64, unchanged func(table string) (keys int, known bool)) int {
	lacking := 0
	for table, had := range t.Keys {
		if keys, known := unchanged(table); known {
			lacking += max(had-keys, 0)
		}
	}
	changes := 0
	if last > t.Revision {
		changes = int(min(last-t.Revision, uint64(lacking)))
	}
	return lacking - changes
}
