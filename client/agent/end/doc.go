// Package end is the runtime of end agents: it serves the skills of a
// directory of folders through a bridge.
//
// Level 1 of every folder is registered, and again whenever it changes; level
// 2 and 3 are read by the capability skill.document, which the agent adds to
// skills that have a SKILL.md; every other capability runs a script
// (package script).
package end
