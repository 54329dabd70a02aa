// Package dispatch carries one command to every member of a group and gathers
// the answers, across restarts of the bridge.
//
// The roster is fixed and stored in one write before the first member is asked.
// Decisions about members are stored in batches and shown afterwards, so that
// no visible state is taken back. That a member is at work is not stored: it is
// asked again.
//
// A member is asked at most once, unless its capability is idempotent. The
// intent to ask is stored first. From then on, after any loss - of the agent,
// the bridge, the answer - the member is asked for its result and not told to
// run again: see DESIGN.md.
package dispatch
