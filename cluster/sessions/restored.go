package sessions

import "github.com/aibridge/aibridge/broker"

// restored is told what the bridge's journal has, and fills in under which epoch it
// owns each; 0 says that it does not. It has the log say the same: what was stored
// by a bridge that was alone is claimed, and what the journal does not have is
// released. done is called when the log does.
func (m *machine) restored(held []broker.Held, epochs []uint32, done func()) {
	ours := make(map[Key]bool, len(held))
	waiting := 1
	settle := func() {
		if waiting--; waiting == 0 {
			done()
		}
	}
	for i := range held {
		key := m.secret.Key(held[i].ID)
		switch owner, epoch := m.table.Owner(key), held[i].Epoch; {
		case owner.Bridge == m.self.ID && (epoch == 0 || epoch == owner.Epoch || epoch+1 == owner.Epoch):
			ours[key], epochs[i] = true, owner.Epoch
		case owner == Owner{} && epoch == 0:
			to := m.fresh()
			waiting++
			m.write(Record{Kind: Claim, Key: key, To: to}, func(counts bool) {
				if counts {
					epochs[i] = to
				}
				settle()
			})
		}
	}
	m.table.Of(m.self.ID, func(key Key, epoch uint32) bool {
		if !ours[key] {
			waiting++
			m.write(Record{Kind: Release, Key: key, From: Owner{m.self.ID, epoch}}, func(bool) { settle() })
		}
		return true
	})
	settle()
}
