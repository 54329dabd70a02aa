package drill

import (
	"fmt"
	"slices"
	"strings"
)

// A Promise is a promise of a cluster of bridges.
type Promise string

// The promises. The numbers are those of the invariants in docs/drill.md.
const (
	Acknowledged  Promise = "acknowledged"             // 1: an acknowledged message reaches every subscriber
	SharedOnce    Promise = "shared"                   // 1: and one member of a shared subscription
	RetainedLast  Promise = "retained"                 // 1: every node has the last acknowledged retained message
	Registered    Promise = "registered"               // 1: every node has an acknowledged registration
	AtMostOnce    Promise = "at-most-once"             // 2: no call runs twice, one that succeeds ran
	LoopsOnce     Promise = "loops"                    // 2: nor a step of a question that is repeated after any interruption
	Approved      Promise = "approved"                 // 2: no call that waits for an approval runs before it
	AlwaysAnswer  Promise = "answered"                 // 2: every call is answered in the end
	ExactlyOnce   Promise = "exactly-once"             // 3: QoS 2 arrives once
	RepeatsOnce   Promise = "exactly-once-if-repeated" // 3: also where its publisher repeats it at another bridge
	NoNeedless    Promise = "no-repeats"               // 3: QoS 1 is repeated only where something was in flight at a break
	InOrder       Promise = "order"                    // 3: each publisher's messages come in order
	KeptSessions  Promise = "sessions"                 // 4: a kept session is found again
	OneOwner      Promise = "one-owner"                // 4: a client that moves gets its session, and its old connection 0x8E
	Frozen        Promise = "frozen"                   // 5: a frozen or cut-off bridge acknowledges nothing that others do not have
	WillsOnce     Promise = "wills"                    // 6: wills of kept sessions are published once
	WillsOfClean  Promise = "wills-of-clean-sessions"  // 6: and those of clean sessions too
	WillsWithheld Promise = "wills-of-who-returned"    // 6: and not if the client came back in time
	TasksEnd      Promise = "tasks"                    // 7: nothing runs for ever
	WorkEnds      Promise = "work"                     // 7: the works of models end
	TrueReadiness Promise = "readiness"                // 8: a node that reports readiness can do its work
	ServiceBack   Promise = "service"                  // service returns after every fault
	QoS0          Promise = "qos0"                     // QoS 0 survives where nothing it was in was lost
)

// Promises are all promises, in the order of reports.
func Promises() []Promise {
	return []Promise{
		Acknowledged, SharedOnce, RetainedLast, Registered, AtMostOnce, LoopsOnce, Approved, AlwaysAnswer, ExactlyOnce, RepeatsOnce, NoNeedless, InOrder,
		KeptSessions, OneOwner, Frozen, WillsOnce, WillsOfClean, WillsWithheld, TasksEnd, WorkEnds, TrueReadiness, ServiceBack, QoS0,
	}
}

// ParsePromises reads promises by their names.
func ParsePromises(names []string) ([]Promise, error) {
	var promises []Promise
	for _, name := range names {
		if !slices.Contains(Promises(), Promise(name)) {
			return nil, fmt.Errorf("there is no promise %q; there are %s", name, joined(Promises()))
		}
		promises = append(promises, Promise(name))
	}
	return promises, nil
}

func joined[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = string(item)
	}
	return strings.Join(texts, ", ")
}
