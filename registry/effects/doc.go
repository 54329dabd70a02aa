// Package effects keeps the effects of calls on the world, certain and possible
// ones, so that the same deed is not done twice.
//
// A capability declares by its effect key which calls are the same deed:
// "door:{door}:unlock" with the params of a call stands for one [Record]. It is stored
// before the agent is asked, by compare-and-set, and so holds across restarts and between
// bridges. Its creator makes the call; others wait for the end of that call, or are
// answered by it for as long as the window says. A call whose outcome is not known leaves
// a record that bars others until it is settled: by the read that the capability names,
// or by a person.
//
// The scope of a key is a capability of a skill in a space. All principals that may
// invoke the capability share it, and so do all agents that serve the skill. The
// docs are in docs/skills.md#the-same-deed.
package effects
