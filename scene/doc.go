// Package scene keeps scenes: their owners, their members, and the RouteAgent
// in charge of each (docs/scenes.md).
//
// A scene is named by its space, its type and the Cap that is its channel. Its
// first declaration creates it and comes from an authorised RouteAgent, whose
// skill owns it from then on. Other RouteAgents that declare themselves stand
// by; skills in other roles just join.
//
// A RouteAgent is in charge while its certificate counts and it is online.
// Without one the scene is suspended. DESIGN.md gives the rules and their
// reasons.
//
// A scene is one record, so every change is one atomic write. Its consequences
// - events, the retained state, the right to hear - are derived from the
// changes in the store, in their order, so they are the same after a restart.
package scene
