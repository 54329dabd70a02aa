package queue

import "strings"

// About is the filter of the messages that workers with a filter are lent: whoever loses
// the right to these works for the queue no more.
func (k *Keeper) About(filter string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(filter, Prefix), "/")
	if q := k.queues[name]; q != nil {
		return q.Topic
	}
	return filter
}
