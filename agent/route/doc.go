// Package route is the runtime of route agents: it serves one skill by which
// callers reach a whole scene. Asked to route, it looks who is there, has the
// bridge dispatch a command to the group, and returns the summary.
package route
