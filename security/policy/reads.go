package policy

import (
	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// reads are the varying facts of a call that a policy looks at: a decision may be
// kept for calls that agree in those.
type reads uint16

const (
	readsTime reads = 1 << iota
	readsDoor
	readsSender
	readsAddress
	readsFacts      // the registry's knowledge of the resource
	readsCredential // method and certificate, which are the principal's own and do not change
	readsArguments  // of the call of an approval, which are facts, too

	readsContext = readsTime | readsDoor | readsSender | readsAddress
	readsAll     = readsContext | readsFacts | readsCredential | readsArguments
)

// ofContext are the parts of the context.
var ofContext = map[cedar.String]reads{
	"time": readsTime, "door": readsDoor, "sender_id": readsSender, "address": readsAddress,
	"method": readsCredential, "certificate": readsCredential,
}

// ofThing are the parts of a resource.
var ofThing = map[cedar.String]reads{
	"id": 0, "space": 0, "kind": 0, "own": 0,
	"owner": readsFacts, "cap": readsFacts, "group": readsFacts, "scene": readsFacts, "skill": readsFacts, "agents": readsFacts,
	"tool": readsFacts, "requester": readsFacts, "requester_kind": readsFacts, "risk": readsFacts,
	"numbers": readsFacts | readsArguments,
}

// readsOf finds the values that a policy looks at. An expression that it cannot
// make out it takes for everything.
func readsOf(p *cedar.Policy) (found reads) {
	inspect(p, func(n ast.IsNode) bool {
		switch n := n.(type) {
		case ast.NodeTypeAccess:
			if r, ok := part(n.Arg, n.Value); ok {
				found |= r
				return false
			}
			found |= readsAll
		case ast.NodeTypeHas:
			if r, ok := part(n.Arg, n.Value); ok {
				found |= r
				return false
			}
			found |= readsAll
		case ast.NodeTypeGetTag:
			found |= tagged(n.Left)
		case ast.NodeTypeHasTag:
			found |= tagged(n.Left)
		case ast.NodeTypeVariable:
			if n.Name == "context" {
				found |= readsContext | readsCredential
			}
		}
		return true
	})
	return found
}

// tagged describes the effect of reading a tag. Those of principals do not change.
func tagged(of ast.IsNode) reads {
	if v, ok := of.(ast.NodeTypeVariable); ok && v.Name == "principal" {
		return 0
	}
	return readsFacts | readsArguments
}

// part describes the effect of reading one name of a variable.
func part(of ast.IsNode, name cedar.String) (r reads, ok bool) {
	v, ok := of.(ast.NodeTypeVariable)
	if !ok {
		return 0, false
	}
	switch v.Name {
	case "context":
		r, ok = ofContext[name]
	case "resource", "principal":
		r, ok = ofThing[name]
	default:
		return 0, false
	}
	return r, ok
}
