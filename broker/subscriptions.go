package broker

import (
	"iter"
	"slices"
)

// subscriptions are those of a session, by filter. Most sessions have one or a few: a
// list of them takes a fifth of the room of a map. The zero value is empty.
type subscriptions struct {
	few  []*subscription
	many map[string]*subscription // once there have been more than mostFew
}

const mostFew = 8

func (x *subscriptions) len() int { return len(x.few) + len(x.many) }

// get returns the subscription to a filter, or nil.
func (x *subscriptions) get(filter string) *subscription {
	if x.many != nil {
		return x.many[filter]
	}
	if at := x.at(filter); at >= 0 {
		return x.few[at]
	}
	return nil
}

// at is where the list has a filter, -1 if it does not have it.
func (x *subscriptions) at(filter string) int {
	return slices.IndexFunc(x.few, func(sub *subscription) bool { return sub.filter == filter })
}

// set adds a subscription, in place of the one to the same filter.
func (x *subscriptions) set(sub *subscription) {
	at := -1
	if x.many == nil {
		at = x.at(sub.filter)
	}
	switch {
	case x.many != nil:
		x.many[sub.filter] = sub
	case at >= 0:
		x.few[at] = sub
	case len(x.few) < mostFew:
		few := make([]*subscription, len(x.few)+1) // no larger than it has to be
		copy(few, x.few)
		few[len(x.few)] = sub
		x.few = few
	default:
		x.many = make(map[string]*subscription, len(x.few)+1)
		for _, each := range x.few {
			x.many[each.filter] = each
		}
		x.many[sub.filter], x.few = sub, nil
	}
}

// remove takes the subscription to a filter away.
func (x *subscriptions) remove(filter string) {
	if x.many != nil {
		delete(x.many, filter)
		return
	}
	x.few = slices.DeleteFunc(x.few, func(sub *subscription) bool { return sub.filter == filter })
}

// all yields the subscriptions, in any order.
func (x *subscriptions) all() iter.Seq[*subscription] {
	return func(yield func(*subscription) bool) {
		for _, sub := range x.few {
			if !yield(sub) {
				return
			}
		}
		for _, sub := range x.many {
			if !yield(sub) {
				return
			}
		}
	}
}
