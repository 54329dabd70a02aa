// Package scene keeps scenes: who owns one, who takes part in it, and which
// RouteAgent is in charge (docs/scenes.md).
//
// A scene is named by its space, its type and the Cap that is its channel. Its
// first declaration creates it and comes from an authorised RouteAgent, whose
// skill owns it from then on. Other RouteAgents that declare themselves stand
// by; skills in other roles just join.
//
// Whether a RouteAgent is in charge follows from its certificate and its being
// there. When nobody is, the scene is suspended. DESIGN.md gives the rules and
// their reasons.
//
// A scene is one record, so every change is one atomic write. What follows from
// it - events, the retained state, who may hear - is derived from the changes
// the store shows, in their order, and so is the same after a restart.
package scene
