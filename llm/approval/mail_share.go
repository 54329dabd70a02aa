package approval

import (
	"net/mail"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/protocol"
)

// DefaultMailsPerHour is the default limit of e-mails to one address within an hour.
const DefaultMailsPerHour = 60

// shareTime is the length of a share's window.
const shareTime = time.Hour

// A share counts the e-mails to an address since a time.
type share struct {
	since time.Time
	sent  int
	of    map[protocol.SpaceID]int // number about approvals of each space
}

// within counts one more e-mail about an approval of a space, and returns the addresses
// that may get it, and those of them for which it is the last one for a while. With
// several spaces, one may use half of an address's limit, so that no space keeps people
// from the approvals of others. The caller holds the lock.
func (p *postman) within(to []mail.Address, space protocol.SpaceID, now time.Time) (may []mail.Address, full []string) {
	if p.PerHour <= 0 {
		return to, nil
	}
	most := p.PerHour
	if !p.alone {
		most = (most + 1) / 2
	}
	for _, address := range to {
		own := p.shares[address.Address] // bounded by the addresses in the settings
		if age := now.Sub(own.since); age < 0 || age >= shareTime {
			own = share{since: now, of: make(map[protocol.SpaceID]int)}
		}
		if own.sent >= p.PerHour || own.of[space] >= most {
			continue
		}
		own.sent++
		own.of[space]++
		if own.sent == p.PerHour || own.of[space] == most {
			full = append(full, address.Address)
			p.log.Warn("an address gets no further e-mail about approvals of a space for a while", "address", address.Address, "space", space, "until", own.since.Add(shareTime))
		}
		p.shares[address.Address] = own
		may = append(may, address)
	}
	return may, full
}

// The outcomes of e-mails, each counted once for each address.
const (
	mailSent    = "sent"
	mailFailed  = "failed"  // the server refused it, or the template is faulty
	mailMoot    = "moot"    // its call does not wait any more
	mailLimited = "limited" // the address had reached its limit of the hour
	mailCrowded = "crowded" // too many e-mails wait
)

func newMailCounts(r prometheus.Registerer) *prometheus.CounterVec {
	counts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aibridge_approval_mails_total", Help: "E-mails about approvals, once for each address: sent, failed, moot (its call does not wait any more), limited (the address had its share of the hour), crowded (too many wait).",
	}, []string{"outcome"})
	if r != nil {
		r.MustRegister(counts)
	}
	return counts
}
