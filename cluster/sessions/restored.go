package sessions

import "github.com/aibridge/aibridge/broker"

// restored matches the log with the sessions of the bridge's journal, and fills in the
// epochs under which the bridge owns them; 0 if it does not. Sessions stored while the
// bridge was alone are claimed in the log, and sessions missing in the journal are
// released. done is called when the log has all that.
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
