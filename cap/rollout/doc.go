// Package rollout carries one command to a fleet: up to 100 000 members, at a
// rate, after a canary, in a window of maintenance, with retries, until too many
// fail (docs/protocol.md#rollouts).
//
// It stands on package dispatch. A rollout asks its members in waves, and a wave
// is a dispatch: what dispatches promise of one request – it is sent once,
// whatever dies – holds for each attempt at a member. See DESIGN.md.
package rollout
