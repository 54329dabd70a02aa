// Package selector reads the language that agents are selected with
// (docs/protocol.md#selectors): the label selectors of Kubernetes, over tags of
// agents, fields of agents and skills, and reported state.
//
//	site=hall, model in (x1, x2), !broken, skill.version>=1.4, state.battery<20
//
// A key without a dot is a tag. All requirements have to hold.
package selector
