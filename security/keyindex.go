package security

import (
	"maps"
	"slices"
	"sync"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// A KeyIndex finds the keys of a party without a look at all others.
type KeyIndex struct {
	mu sync.RWMutex
	of map[protocol.Party]map[string]*Key
}

// IndexKeys returns an index that follows the table of keys.
func IndexKeys(keys records.Table[Key]) *KeyIndex {
	x := &KeyIndex{of: make(map[protocol.Party]map[string]*Key)}
	keys.OnChange(x.changed)
	return x
}

func (x *KeyIndex) changed(id string, old, now *Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old != nil {
		party := old.Party()
		if delete(x.of[party], id); len(x.of[party]) == 0 {
			delete(x.of, party)
		}
	}
	if now != nil {
		party := now.Party()
		if x.of[party] == nil {
			x.of[party] = make(map[string]*Key, 1)
		}
		x.of[party][id] = now
	}
}

// Of are the keys of a party, live or not, in no order.
func (x *KeyIndex) Of(party protocol.Party) []*Key {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Values(x.of[party]))
}
