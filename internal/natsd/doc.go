// Package natsd gives the store its two NATS connections: to two servers
// embedded in this process, or to a NATS that runs elsewhere.
//
// The embedded servers open no port, handle no signal and are reached through
// in-process connections. "state" syncs every write to disk before it is
// acknowledged; "flow" leaves syncing to the operating system, so that acknowledged
// writes survive a crash of the process but not of the machine, unless
// [Options.SyncAlways] asks for both. docs/decisions/0002 says why there are two.
package natsd
