package caps

import (
	"slices"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// maxOrders bounds the orders of a folder that are remembered, confirmed or not.
const maxOrders = 8

// The states of an order to a device's folder.
const (
	ordered  = "ordered"
	restored = "restored"
	failed   = "failed"
)

// An Order has a device's folder bring back a copy that it keeps.
type Order struct {
	ID       int64  `json:"order_id" doc:"names the order"`
	Path     string `json:"path" doc:"of the file, in the folder"`
	Checksum string `json:"checksum" doc:"SHA-256 of the copy, hexadecimal"`
}

// Obeyed reports the end of an order.
type Obeyed struct {
	ID     int64  `json:"order_id" range:"1-9007199254740991" doc:"the order"`
	Reason string `json:"reason,omitempty" len:"1-512" doc:"reason why the copy cannot be brought back; absent if it was"`
}

// A RestoreView is an order as callers see it.
type RestoreView struct {
	Order
	Status string `json:"restore_status" enum:"ordered,restored,failed" doc:"ordered (the folder has still to confirm it), restored or failed"`
	Reason string `json:"reason,omitempty" doc:"reason why it failed"`
}

// order adds an order to a folder that reported itself. One that waits already
// is not given twice. The lock of the service is held.
func (m *capMirror) order(owner, folder, path, checksum string) (Order, error) {
	m.dropReports(time.Now())
	key := folderKey(owner, folder)
	view, known := m.reports[key]
	if !known {
		return Order{}, protocol.Errorf(protocol.NotFound, "no such folder has reported itself lately").
			With("owner", owner).With("folder", folder).With("reason", "cap.vfs.sync.status lists the folders of devices")
	}
	for _, r := range view.Restores {
		if r.Status == ordered && r.Path == path && r.Checksum == checksum {
			return r.Order, nil
		}
	}
	list := slices.Clone(view.Restores)
	if len(list) >= maxOrders {
		done := slices.IndexFunc(list, func(r RestoreView) bool { return r.Status != ordered })
		if done < 0 {
			return Order{}, protocol.Errorf(protocol.LimitReached, "%d copies are still to be brought back in this folder", maxOrders).With("limit", maxOrders)
		}
		list = slices.Delete(list, done, done+1)
	}
	m.ordered = max(time.Now().UnixMilli(), m.ordered+1)
	o := Order{ID: m.ordered, Path: path, Checksum: checksum}
	view.Restores = append(list, RestoreView{Order: o, Status: ordered})
	m.reports[key] = view
	return o, nil
}

// confirm takes over the outcomes of orders.
func confirm(list []RestoreView, results []Obeyed) []RestoreView {
	list = slices.Clone(list) // the one before may be being shown
	for _, result := range results {
		for i := range list {
			if r := &list[i]; r.ID == result.ID && r.Status == ordered {
				if r.Status, r.Reason = restored, result.Reason; r.Reason != "" {
					r.Status = failed
				}
			}
		}
	}
	return list
}

// unconfirmed are the orders that are still to be carried out.
func unconfirmed(list []RestoreView) (orders []Order) {
	for _, r := range list {
		if r.Status == ordered {
			orders = append(orders, r.Order)
		}
	}
	return orders
}
