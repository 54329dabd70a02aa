// Package dispatch carries one command to every member of a group and gathers
// what they answer, across restarts of the bridge.
//
// The roster is fixed and stored in one write before anybody is asked. What is
// decided about members is stored in batches and shown once it is stored, so
// that nothing that was seen is taken back. Who is only at work is not stored:
// it is asked again.
//
// A member is asked at most once, unless its capability is idempotent. That it
// is about to be asked is stored first. From then on, whatever gets lost - the
// agent, the bridge, the answer - the member is asked for its result and not
// told to run again: see DESIGN.md.
package dispatch
