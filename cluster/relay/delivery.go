package relay

import (
	"encoding/binary"

	"github.com/aibridge/aibridge/broker"
)

// A delivery is the processing of the records of one frame.
type delivery struct {
	p        *peer
	from     Node
	arrival  Arrival // nil for the lane of control
	marked   uint64
	groups   []uint64
	urgent   bool      // the peer waits for its acceptance
	outcomes []outcome // to be sent to the peer
	left     []leftover
	said     []saying
}

// An outcome is a record with the outcome of a message, for its sender.
type outcome struct {
	kind byte
	body []byte
}

// A leftover is a message that no member of some groups at the peer took: it is offered
// to their other members.
type leftover struct {
	encoded []byte
	groups  []uint64
	became  broker.Outcome // outcome of the message apart from these groups
	receipt broker.Answerer
}

func (d *delivery) record(kind byte, body []byte, end uint64) error {
	switch kind {
	case recMessage:
		if d.arrival == nil {
			return errFrame
		}
		return d.message(body, end)
	case recBatch:
		d.urgent = true
		return d.p.r.announced(d.p, body)
	case recResync:
		d.urgent = true
		d.p.mu.Lock()
		d.p.outdated = true
		d.p.mu.Unlock()
		d.p.r.announceSoon()
	case recOutcome:
		d.urgent = true
		return d.p.outcome(body)
	case recLeft:
		d.urgent = true
		return d.takeBack(body)
	case recPart:
		return d.heard(body)
	default:
		return errFrame
	}
	return nil
}

func (d *delivery) message(body []byte, end uint64) error {
	marks, groups, encoded, ok := parseMessage(body, d.groups)
	d.groups = groups
	if !ok {
		return errFrame
	}
	d.urgent = d.urgent || marks&markAnswer != 0
	if end <= d.marked {
		return nil // it was stored before this process began
	}
	d.p.r.metrics.received.Inc()
	only := marks&markOnly != 0
	became, left, err := d.arrival.Deliver(encoded, groups, only)
	if err != nil {
		return err
	}
	if marks&markTell != 0 && became != broker.Taken {
		d.outcomes = append(d.outcomes, outcome{recOutcome, append(binary.AppendUvarint(nil, end), byte(became))})
	}
	if len(left) > 0 && !only { // with only, the outcome has it
		d.outcomes = append(d.outcomes, outcome{recLeft, appendGroups(binary.AppendUvarint(nil, end), left)})
	}
	return nil
}

// takeBack handles the return of a message that no member of some groups took at the
// peer.
func (d *delivery) takeBack(body []byte) error {
	end, n := binary.Uvarint(body)
	if n <= 0 || len(body) == n || (len(body)-n)%8 != 0 {
		return errFrame
	}
	d.p.mu.Lock()
	record, w := d.p.messages.out.takeBack(end)
	d.p.mu.Unlock()
	if record == nil {
		return nil
	}
	_, _, encoded, _ := parseMessage(record, nil)
	l := leftover{encoded: encoded, became: w.outcome, receipt: w.receipt}
	for b := body[n:]; len(b) > 0; b = b[8:] {
		l.groups = append(l.groups, binary.LittleEndian.Uint64(b))
	}
	d.left = append(d.left, l)
	return nil
}

// outcome handles the outcome of a message, sent by the peer.
func (p *peer) outcome(body []byte) error {
	end, n := binary.Uvarint(body)
	if n <= 0 || len(body) != n+1 || broker.Outcome(body[n]) > broker.Taken {
		return errFrame
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messages.out.told(end, broker.Outcome(body[n]))
	return nil
}
