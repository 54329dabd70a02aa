// Package task runs commands whose callers do not wait. A task is durable before
// its id is returned; its state can be asked for, followed on its topic and
// cancelled, also by a caller that has reconnected in the meantime.
//
// While a task runs its progress lives in memory only. A task that was running
// when the bridge stopped is failed with 4012: its outcome is unknown. One that
// had not begun is failed with 5002 and can safely be sent again
// (docs/protocol.md#what-lasts).
package task
